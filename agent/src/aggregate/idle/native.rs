//! Native functions of threads of pools that wait for work.
//!
//! Invariant: the first function, from the leaf on, that does not itself wait decides.

mod java;

use std::borrow::Cow;

use agent_common::record::WaitReason;

/// What a thread of a native pool waits for.
const WAITS: [WaitReason; 4] = [
    WaitReason::LOCK,
    WaitReason::POLL,
    WaitReason::SLEEP,
    WaitReason::OTHER,
];

/// Most functions from the leaf on.
const MAX_FUNCTIONS: usize = 32;

/// Executables whose functions wait, also those without a name.
const C_LIBRARIES: [&str; 6] = [
    "libc.so",
    "libc-2",
    "libpthread",
    "ld-musl",
    "libc.musl",
    "[vdso]",
];

/// Parts of the names of functions that wait for others.
const WAITING: &[&str] = &[
    // C libraries, where they are linked statically.
    "futex",
    "pthread_cond_",
    "epoll_wait",
    "epoll_pwait",
    "sem_wait",
    "sem_timedwait",
    "nanosleep",
    "syscall",
    // Go.
    "runtime.futex",
    "runtime.notesleep",
    "runtime.notetsleep",
    "runtime.mPark",
    "runtime.netpoll",
    "runtime.epollwait",
    "runtime.usleep",
    // Rust.
    "std::sys::",
    "std::sync::",
    "std::thread::park",
    "core::",
    "parking_lot",
    "lock_api::",
    "mio::",
    // The virtual machine and the library of Java.
    "Unsafe_Park",
    "Unsafe.park",
    "Unsafe::park",
    "Parker::park",
    "PlatformMonitor::",
    "Monitor::wait",
    "LockSupport",
    "AbstractQueuedSynchronizer",
    "BlockingQueue",
    "SynchronousQueue",
    "DelayedWorkQueue",
    "LinkedTransferQueue",
    "java.util.concurrent.ForkJoinPool.managedBlock",
    "java.util.concurrent.ForkJoinPool.unmanagedBlock",
    "java.lang.Object.wait",
    // OpenMP.
    "gomp_team_barrier_wait",
    "gomp_simple_barrier_wait",
    "gomp_barrier_wait",
    "kmp_suspend",
    "kmp_wait",
    "kmp_flag",
    "kmp_fork_barrier",
    "kmp_hyper_barrier",
    // libuv.
    "uv_cond_wait",
    "uv__io_poll",
    // C++.
    "condition_variable",
    "EventCount::CommitWait",
    "cnd_wait",
    "cnd_timedwait",
    // Abseil, below gRPC, TensorFlow and JAX.
    "synchronization_internal",
    "InternalPerThreadSemWait",
    "::CondVar::",
    // gRPC.
    "gpr_cv_wait",
    "gpr_sleep_until",
    "pollset_work",
    "non_polling_poller_work",
    "cq_next",
    "CompletionQueue::AsyncNext",
    "TimerManager::WaitUntil",
    "Epoll1Poller::",
    // Asio, as in Ray.
    "epoll_reactor::run",
    // librdkafka.
    "rd_kafka_q_",
    "rd_kafka_broker_ops_io_serve",
    // uWSGI.
    "event_queue_wait",
    // Apache.
    "apr_poll",
    "apr_sleep",
];

/// Parts of the names of functions that wait for a condition, not for the lock of which they are.
const CONDITIONAL: &[&str] = &["Mutex::Block", "Mutex::Await"];

/// Parts of the names of locks: that a thread waits for one is contention, wherever it does.
const CONTENDED: &[&str] = &["mutex", "Mutex", "rwlock", "RwLock", "runtime.lock"];

/// Functions whose wait for a lock is one for a request: one of them waits for the next request, the others for it.
const ACCEPTING: &[&str] = &[
    // uWSGI.
    "wsgi_req_accept",
];

/// Functions that take a lock for others, which decide.
const LOCKING: &[&str] = &[
    // uWSGI, with `--thunder-lock`.
    "uwsgi_lock",
    "uwsgi_lock_fast",
];

/// Functions that wait for work by reading from a pipe.
const READING: &[&str] = &[
    // Apache.
    "ap_mpm_podx_check",
];

/// Beginnings of the names of functions that read for others, which decide.
const STREAMS: &[&str] = &[
    // C++.
    "std::basic_istream<",
    "std::basic_streambuf<",
    "boost::iostreams::",
    // Ray: the end of a child process.
    "ray::Process::Wait",
];

/// Parts, all of them, of the name of a function whose thread does nothing but read from a pipe.
const READERS: &[&[&str]] = &[
    // Ray.
    &["ray::", "StartStreamDump"],
    &["ray::raylet::AgentManager::StartAgent"],
];

/// Parts, all of them, of the name of the function of a pool that waits for work.
const POOLS: &[&[&str]] = &[
    // Go.
    &["runtime.stopm"],
    &["runtime.stoplockedm"],
    &["runtime.findRunnable"],
    &["runtime.findrunnable"],
    &["runtime.sysmon"],
    &["runtime.templateThread"],
    &["os/signal.signal_recv"],
    // Java.
    &["ThreadPoolExecutor", "getTask"],
    &["ForkJoinPool", "awaitWork"],
    &["CompileQueue::get"],
    &["WatcherThread::sleep"],
    &["VMThread::wait_for_vm_operations"],
    &["java.lang.ref.ReferenceQueue.await"],
    &["java.lang.ref.ReferenceQueue.remove"],
    &["java.util.TimerThread.mainLoop"],
    // Rust.
    &["tokio::runtime", "park"],
    &["tokio::runtime", "Driver::turn"],
    &["tokio::runtime::blocking::pool", "run"],
    &["rayon_core::sleep"],
    &["rayon_core::registry::WorkerThread::wait_until"],
    // Polars.
    &["polars", "executor::park_group::ParkAttempt::park"],
    &["polars", "executor::Executor::runner"],
    &["polars_ooc::spill_file::CleanRequest", "recv"],
    // Numerical libraries.
    &["blas_thread_server"],
    &["gomp_thread_start"],
    &["__kmp_launch_thread"],
    &["thread_worker"],
    &["rml::", "private_worker"],
    &["Eigen::ThreadPoolTempl", "WaitForWork"],
    &["UnboundedWorkQueue::PooledThreadFunc"],
    &["tensorflow::data::BackgroundWorker::WorkerLoop"],
    &["tensorflow::data::model::Model::OptimizeLoop"],
    &["xla::SlowOperationAlarm::AlarmLoop"],
    &["c10::ThreadPool::main_loop"],
    &["torch::autograd::ReadyQueue::pop"],
    &["arrow::internal::ThreadPool::LaunchWorkers"],
    &["duckdb::TaskScheduler::ExecuteForever"],
    // jemalloc.
    &["background_thread_entry"],
    // gRPC.
    &["grpc_core::Executor::ThreadMain"],
    &["grpc_event_engine::", "ThreadPool::Queue::Step"],
    &["grpc_event_engine::", "WorkStealingThreadPool"],
    &["grpc_event_engine::", "TimerManager::MainLoop"],
    &["grpc_event_engine::", "PollerWorkInternal"],
    &["grpc::", "CallbackAlternativeCQ"],
    &["grpc::", "SyncRequestThreadManager::PollForWork"],
    &["timer_thread"],
    // Ray.
    &["ray::rpc::", "PollEventsFromCompletionQueue"],
    &["ray::", "StartStreamDump"],
    &["ray::IOContextMonitorThread::Run"],
    // Asio.
    &["asio::detail::scheduler::do_run_one"],
    // librdkafka.
    &["rd_kafka_thread_main"],
    &["rd_kafka_broker_serve"],
    // Node.js, and uvloop.
    &["uv_run"],
    // uWSGI.
    &["uwsgi_corerouter_loop"],
    // Apache.
    &["ap_queue_pop_something"],
    &["ap_wait_or_timeout"],
];

/// Whole names of such functions.
const NAMED_POOLS: &[&str] = &[
    // libuv.
    "worker",
    // uWSGI.
    "wsgi_req_accept",
    "master_loop",
];

/// Executables whose threads are those of pools, as a rule without symbols.
const POOL_LIBRARIES: &[&str] = &[
    "cygrpc.",
    "onnxruntime_pybind11_state.",
    "libonnxruntime",
    "libgomp",
    "libiomp5",
    "libomp",
    "libtbb",
    "libzmq",
    "librdkafka",
    "cv2.",
    "_granian.",
    "mod_mpm_",
    "mod_wsgi.so",
];

/// The functions of a stack, from the leaf on.
pub(super) struct NativeFunctions {
    wait: WaitReason,
    functions: usize,
    /// Whether the thread waits for a lock that another one holds.
    is_contended: bool,
    /// See [`has_known_name`].
    has_known_name: bool,
}

/// Whether the name of a thread is one that says what it does, where its functions do not say something else.
pub(super) fn has_known_name(thread: &str) -> bool {
    java::is_library_thread(thread)
}

impl NativeFunctions {
    /// Of a thread that waits for this, with such a [name](has_known_name) or another one.
    pub(super) fn new(wait: WaitReason, has_known_name: bool) -> Self {
        Self {
            wait,
            functions: 0,
            is_contended: false,
            has_known_name,
        }
    }

    /// Looks at the next frame: the name of its executable, and its functions, the innermost first.
    /// Returns whether the thread waits for work, as soon as that is known.
    pub(super) fn next_frame<'a>(
        &mut self,
        executable: &str,
        functions: impl Iterator<Item = &'a str>,
    ) -> Option<bool> {
        let reads = self.wait == WaitReason::PIPE;
        let listens = self.wait == WaitReason::SOCKET;
        let is_known = reads || listens || WAITS.contains(&self.wait);
        if !is_known || self.functions >= MAX_FUNCTIONS {
            return Some(false);
        }
        self.functions += 1;
        let is_one_of = |known: &[&str]| known.iter().any(|name| executable.starts_with(name));
        let is_library = is_one_of(&C_LIBRARIES);
        let mut has_name = false;
        for function in functions {
            has_name = true;
            let function = plain(function);
            let has = |part: &&str| function.contains(part);
            if CONDITIONAL.iter().any(has) {
                continue;
            }
            if CONTENDED.iter().any(has) {
                self.is_contended = true;
                continue;
            }
            if self.is_contended {
                if LOCKING.contains(&&*function) {
                    continue;
                }
                return Some(ACCEPTING.contains(&&*function));
            }
            if listens && !is_library {
                return Some(java::listens(executable, &function));
            }
            if reads && !is_library {
                let is_reader = READERS.iter().any(|parts| parts.iter().all(has));
                if !is_reader && STREAMS.iter().any(|begin| function.starts_with(begin)) {
                    continue;
                }
                return Some(is_reader || READING.contains(&&*function));
            }
            let is_pool = POOLS.iter().any(|parts| parts.iter().all(has));
            let is_java = java::is_idle(executable, &function, self.has_known_name);
            if is_pool || NAMED_POOLS.contains(&&*function) || is_java {
                return Some(true);
            }
            let waits = WAITING.iter().any(has) || java::waits(executable, &function);
            if !is_library && !waits {
                return Some(false);
            }
        }
        let is_unknown = !has_name && !is_library;
        let is_for_work = !reads && !listens && !self.is_contended;
        is_unknown.then(|| is_for_work && is_one_of(POOL_LIBRARIES))
    }
}

/// The name of a function without the brackets around its type, which one of the two ways to mangle names of Rust has:
/// `<rayon_core::registry::WorkerThread>::wait_until_cold`.
fn plain(function: &str) -> Cow<'_, str> {
    match function.strip_prefix('<').and_then(|it| it.split_once('>')) {
        Some((name, rest)) => format!("{name}{rest}").into(),
        None => function.into(),
    }
}

#[cfg(test)]
mod tests;
