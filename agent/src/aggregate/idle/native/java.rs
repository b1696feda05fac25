//! Functions of the virtual machine of Java, as `HotSpot` of versions 17 to 25 names them.

/// Functions that wait for others, of `libjvm.so`.
const WAITING: &[&str] = &[
    "os::PlatformEvent::park",
    "PlatformEvent::park",
    "PlatformEvent::park_nanos",
    "PosixSemaphore::wait",
    "ObjectSynchronizer::wait",
    "JVM_MonitorWait",
    "os::naked_short_sleep",
];

/// Functions in which threads of the virtual machine wait for work, of `libjvm.so`.
const THREADS: &[&str] = &[
    // What the machine does for itself, and for signals and references.
    "VMThread::wait_for_operation",
    "ServiceThread::service_thread_entry",
    "MonitorDeflationThread::monitor_deflation_thread_entry",
    "NotificationThread::notification_thread_entry",
    "NMethodSweeper::sweeper_loop",
    "os::signal_wait",
    "JVM_WaitForReferencePendingList",
    // Workers of garbage collectors.
    "GangWorker::loop",
    "GangWorker::wait_for_task",
    "WorkerThread::run",
    // G1.
    "G1ConcurrentMarkThread::run_service",
    "G1ConcurrentMarkThread::wait_for_next_cycle",
    "G1ConcurrentRefineThread::run_service",
    "G1ConcurrentRefineThread::wait_for_completed_buffers",
    "G1PrimaryConcurrentRefineThread::wait_for_completed_buffers",
    "G1SecondaryConcurrentRefineThread::wait_for_completed_buffers",
    "G1ServiceThread::sleep_before_next_cycle",
    "G1ServiceThread::wait_for_task",
    // ZGC.
    "ZDirector::run_thread",
    "ZDriver::run_service",
    "ZDriverPort::receive",
    "ZMetronome::wait_for_tick",
    "ZUncommitter::run_service",
    "ZUncommitter::wait",
    "ZUnmapper::run_service",
    // Shenandoah.
    "ShenandoahControlThread::run_service",
];

/// A function of the launcher whose thread waits until the main thread, another one, has ended.
const LAUNCHER: &str = "CallJavaMainInNewThread";

/// Name of every interpreted function, where the machine says which code it has compiled.
const INTERPRETED: &str = "Interpreter";

/// Whether a function waits for others, or has no name of its own, so that its callers decide.
pub(super) fn waits(executable: &str, function: &str) -> bool {
    match executable {
        "libjvm.so" => WAITING.contains(&function),
        "[jit]" => function == INTERPRETED,
        _ => false,
    }
}

/// Whether it is that of a thread of the virtual machine that waits for work.
pub(super) fn is_idle(executable: &str, function: &str) -> bool {
    match executable {
        "libjvm.so" => THREADS.contains(&function),
        "libjli.so" => function == LAUNCHER,
        _ => false,
    }
}
