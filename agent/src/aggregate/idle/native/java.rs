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

/// Ends of the names of functions in which a thread of it waits for connections, of `libjvm.so`: of `jcmd` and other tools.
const LISTENERS: &[&str] = &["AttachListener::dequeue"];

/// Threads of Java's library that do nothing but remove references from a queue, and see to what is referred to:
/// `FinalizerThread.run` and `CleanerImpl.run`, whose names are `Finalizer` and `Common-Cleaner` in versions 9 to 25. A
/// finalizer that waits for something itself cannot be told apart where functions have no names.
const LIBRARY_THREADS: &[&str] = &["Finalizer", "Common-Cleaner"];

/// Functions of `libjvm.so` in which Java code waits: `Object.wait`, and `LockSupport.park` with all that is made of it.
const WAITS_OF_JAVA: &[&str] = &["JVM_MonitorWait", "Unsafe_Park"];

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

/// Whether a thread with this name is one of Java's library that waits for work if it [waits](WAITS_OF_JAVA).
pub(super) fn is_library_thread(name: &str) -> bool {
    LIBRARY_THREADS.contains(&name)
}

/// Whether a function that waits for connections is that of a thread of the virtual machine.
pub(super) fn listens(executable: &str, function: &str) -> bool {
    executable == "libjvm.so" && LISTENERS.iter().any(|end| function.ends_with(end))
}

/// Whether it is that of a thread of the virtual machine that waits for work, or of Java's library if the thread
/// [is one of that](is_library_thread).
pub(super) fn is_idle(executable: &str, function: &str, is_library_thread: bool) -> bool {
    match executable {
        "libjvm.so" => {
            THREADS.contains(&function) || is_library_thread && WAITS_OF_JAVA.contains(&function)
        }
        "libjli.so" => function == LAUNCHER,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use agent_common::record::WaitReason;

    use crate::aggregate::idle::native::tests::idle_as;

    /// As of versions 17 and 25; functions of Java are interpreted, and have no names.
    #[test]
    fn threads_that_remove_references_have_names() {
        let wait = [
            "pthread_cond_wait@libc.so.6",
            "PlatformEvent::park@libjvm.so",
            "ObjectMonitor::wait@libjvm.so",
            "ObjectSynchronizer::wait@libjvm.so",
            "JVM_MonitorWait@libjvm.so",
            "@[jit]",
        ];
        let timed = [
            "pthread_cond_timedwait@libc.so.6",
            "os::PlatformEvent::park@libjvm.so",
            "ObjectMonitor::wait@libjvm.so",
            "ObjectSynchronizer::wait@libjvm.so",
            "JVM_MonitorWait@libjvm.so",
            "@[jit]",
        ];
        // As of version 21.
        let park = [
            "pthread_cond_timedwait@libc.so.6",
            "Parker::park@libjvm.so",
            "Unsafe_Park@libjvm.so",
            "@[jit]",
        ];
        for frames in [&wait[..], &timed, &park] {
            for thread in ["Finalizer", "Common-Cleaner"] {
                assert!(idle_as(thread, WaitReason::LOCK, frames), "{thread}");
            }
            for thread in ["own-wait", "pool-1-thread-1", "Timer-0", "java"] {
                assert!(!idle_as(thread, WaitReason::LOCK, frames), "{thread}");
            }
        }
        // It wants the monitor back that others have, and a program that is none of Java's.
        let contended = [wait[0], wait[1], "ObjectMonitor::ReenterI@libjvm.so"];
        let of_monitor = [&contended[..], &wait[2..]].concat();
        assert!(!idle_as("Finalizer", WaitReason::LOCK, &of_monitor));
        let own = ["pthread_cond_wait@libc.so.6", "Unsafe_Park@server"];
        assert!(!idle_as("Finalizer", WaitReason::LOCK, &own));
    }

    #[test]
    fn the_thread_that_answers_tools_waits_for_connections() {
        for dequeue in [
            "LinuxAttachListener::dequeue",
            "PosixAttachListener::dequeue",
        ] {
            let of_machine = format!("{dequeue}@libjvm.so");
            let frames = ["accept@libc.so.6", &of_machine];
            assert!(idle_as("Attach Listener", WaitReason::SOCKET, &frames));
            let own = format!("{dequeue}@server");
            assert!(!idle_as(
                "own",
                WaitReason::SOCKET,
                &["accept@libc.so.6", &own]
            ));
        }
        let reads = ["recv@libc.so.6", "Java_java_net_read@libnet.so"];
        assert!(!idle_as("own", WaitReason::SOCKET, &reads));
        assert!(!idle_as(
            "own",
            WaitReason::SOCKET,
            &["accept@libc.so.6", "@libtbb.so"]
        ));
        assert!(!idle_as(
            "own",
            WaitReason::SOCKET,
            &["runtime.stopm@server"]
        ));
    }
}
