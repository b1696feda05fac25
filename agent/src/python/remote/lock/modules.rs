//! Which functions of Python's own modules wait for an object.

/// What a function waits for that waits for its first variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Awaited {
    /// An object, or the lock that is a part of it.
    Object,
    /// The end of a thread.
    Thread,
}

/// End of the name of the file with `Thread`.
const THREADING: &str = "/threading.py";

/// Ends of the names of files whose functions wait for an object.
const MODULES: [&str; 7] = [
    THREADING,
    "/queue.py",
    "/Queue.py",
    "/multiprocessing/synchronize.py",
    "/multiprocessing/queues.py",
    "/multiprocessing/pool.py",
    "/concurrent/futures/_base.py",
];

/// Ends of the names of other files whose functions call those of programs, with what these are to be called with.
const CALLERS: [&str; 3] = [
    "/concurrent/futures/process.py",
    "/concurrent/futures/thread.py",
    "/multiprocessing/process.py",
];

/// Functions of [`MODULES`] that do, or that wait for the lock which is a part of the object, without their classes.
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

/// Whether a file is that of Python's module `threading`.
pub(super) fn is_threading(file: &str) -> bool {
    file.ends_with(THREADING)
}

/// Whether what the functions of a file refer to has better names elsewhere, as the arguments in a `Thread`.
pub(super) fn is_internal(file: &str) -> bool {
    is_lock_module(file) || CALLERS.iter().any(|caller| file.ends_with(caller))
}

/// What a function of a [lock module](is_lock_module), without its class, waits for, if for its first variable.
pub(super) fn awaited(function: &str, file: &str) -> Option<Awaited> {
    if !WAITS.contains(&function) || !is_lock_module(file) {
        return None;
    }
    let is_of_thread = function == "join" && is_threading(file);
    Some(if is_of_thread {
        Awaited::Thread
    } else {
        Awaited::Object
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_threads_are_joined_in_threading() {
        for (function, file, expected) in [
            (
                "join",
                "/usr/lib/python3.12/threading.py",
                Some(Awaited::Thread),
            ),
            (
                "wait",
                "/usr/lib/python3.12/threading.py",
                Some(Awaited::Object),
            ),
            (
                "join",
                "/usr/lib/python3.12/queue.py",
                Some(Awaited::Object),
            ),
            ("join", "/srv/my_threading.py", None),
            ("run", "/usr/lib/python3.12/threading.py", None),
        ] {
            assert_eq!(awaited(function, file), expected, "{function} {file}");
        }
    }
}
