//! Which functions of Python's own modules wait for an object.

/// Ends of the names of files whose functions wait for an object.
const MODULES: [&str; 7] = [
    "/threading.py",
    "/queue.py",
    "/Queue.py",
    "/multiprocessing/synchronize.py",
    "/multiprocessing/queues.py",
    "/multiprocessing/pool.py",
    "/concurrent/futures/_base.py",
];

/// Functions of these that do, or that wait for the lock which is a part of the object, without their classes.
const WAITS: [&str; 28] = [
    "__enter__",
    "_acquire_restore",
    "_enter",
    "_wait",
    "_wait_for_tstate_lock",
    "acquire",
    "add_done_callback",
    "cancel",
    "clear",
    "done",
    "empty",
    "exception",
    "full",
    "get",
    "join",
    "notify",
    "notify_all",
    "put",
    "qsize",
    "release",
    "result",
    "running",
    "set",
    "set_exception",
    "set_result",
    "task_done",
    "wait",
    "wait_for",
];

/// Whether the functions of a file wait for an object, as those of `threading.py` do.
#[must_use]
pub fn is_lock_module(file: &str) -> bool {
    MODULES.iter().any(|module| file.ends_with(module))
}

/// Whether a function of such a file, without its class, waits for its first variable.
pub(super) fn waits(function: &str, file: &str) -> bool {
    WAITS.contains(&function) && is_lock_module(file)
}
