use agent_common::record::WaitReason;

use super::{NativeFunctions, has_known_name};

/// Whether a thread is idle with these functions, from the leaf on, each `name@executable`; without a
/// name the executable has no symbols.
fn idle(wait: WaitReason, frames: &[&str]) -> bool {
    idle_as("", wait, frames)
}

/// The same of a thread with this name.
pub(super) fn idle_as(thread: &str, wait: WaitReason, frames: &[&str]) -> bool {
    let mut functions = NativeFunctions::new(wait, has_known_name(thread));
    let decided = frames.iter().find_map(|frame| {
        let (name, executable) = frame.split_once('@').unwrap();
        let name = Some(name).filter(|name| !name.is_empty());
        functions.next_frame(executable, name.into_iter())
    });
    decided.unwrap_or(false)
}

#[test]
fn threads_of_go_are_idle_without_goroutines() {
    let stop = [
        "runtime.futex.abi0@server",
        "runtime.futexsleep@server",
        "runtime.notesleep@server",
        "runtime.mPark@server",
        "runtime.stopm@server",
        "runtime.findRunnable@server",
        "runtime.schedule@server",
    ];
    assert!(idle(WaitReason::LOCK, &stop));
    assert!(!idle(WaitReason::FILE, &stop));
    let poll = [
        "internal/runtime/syscall.Syscall6@server",
        "internal/runtime/syscall.EpollWait@server",
        "runtime.netpoll@server",
        "runtime.findRunnable@server",
    ];
    assert!(idle(WaitReason::POLL, &poll));
    assert!(idle(
        WaitReason::SLEEP,
        &["runtime.usleep.abi0@server", "runtime.sysmon@server"]
    ));
    assert!(idle(
        WaitReason::LOCK,
        &[
            "runtime.futex.abi0@server",
            "runtime.notetsleepg@server",
            "os/signal.signal_recv@server"
        ]
    ));
    assert!(!idle(
        WaitReason::LOCK,
        &[
            "runtime.futex.abi0@server",
            "runtime.futexsleep@server",
            "runtime.lock2@server",
            "runtime.stopm@server"
        ]
    ));
    assert!(!idle(
        WaitReason::LOCK,
        &["runtime.futex.abi0@server", "main.work@server"]
    ));
}

#[test]
fn threads_of_java_are_idle_without_tasks() {
    let pool = [
        "__futex_abstimed_wait_common@libc.so.6",
        "pthread_cond_wait@libc.so.6",
        "Unsafe_Park@libjvm.so",
        "java.util.concurrent.locks.LockSupport.park@[jit]",
        "java.util.concurrent.LinkedBlockingQueue.take@[jit]",
        "java.util.concurrent.ThreadPoolExecutor.getTask@[jit]",
    ];
    assert!(idle(WaitReason::LOCK, &pool));
    let own = [&pool[..4], &["com.example.Orders.await@[jit]", pool[5]]].concat();
    assert!(!idle(WaitReason::LOCK, &own));
    for thread in [
        "CompileQueue::get",
        "WatcherThread::sleep",
        "VMThread::wait_for_vm_operations",
    ] {
        let thread = format!("{thread}@libjvm.so");
        assert!(idle(
            WaitReason::LOCK,
            &["@libc.so.6", "PlatformMonitor::wait@libjvm.so", &thread]
        ));
    }
    assert!(idle(
        WaitReason::LOCK,
        &[
            "Unsafe_Park@libjvm.so",
            "java.util.concurrent.ForkJoinPool.awaitWork@[jit]"
        ]
    ));
}

#[test]
fn threads_of_the_virtual_machine_of_java_are_idle_without_work() {
    let condition = [
        "pthread_cond_wait@libc.so.6",
        "os::PlatformMonitor::wait@libjvm.so",
    ];
    let monitor = "Monitor::wait_without_safepoint_check@libjvm.so";
    let semaphore = [
        "__new_sem_wait_slow64@libc.so.6",
        "PosixSemaphore::wait@libjvm.so",
    ];
    for (leaf, thread) in [
        (&semaphore[..], "GangWorker::loop"),
        (&semaphore, "WorkerThread::run"),
        (&semaphore, "G1ConcurrentRefineThread::run_service"),
        (&semaphore, "os::signal_wait"),
        (
            &[condition[0], condition[1], monitor],
            "VMThread::wait_for_operation",
        ),
        (
            &[condition[0], condition[1], monitor],
            "G1ServiceThread::wait_for_task",
        ),
        (
            &[condition[0], condition[1], monitor],
            "NMethodSweeper::sweeper_loop",
        ),
        (
            &[condition[0], "PlatformMonitor::wait@libjvm.so"],
            "ZDriverPort::receive",
        ),
        (
            &[condition[0], condition[1], "Monitor::wait@libjvm.so"],
            "JVM_WaitForReferencePendingList",
        ),
        (
            &["nanosleep@libc.so.6", "os::naked_short_sleep@libjvm.so"],
            "ShenandoahControlThread::run_service",
        ),
    ] {
        let idle_in = |executable: &str| {
            let thread = format!("{thread}@{executable}");
            idle(WaitReason::LOCK, &[leaf, &[&*thread]].concat())
        };
        assert!(idle_in("libjvm.so"), "{thread}");
        // Of another program with a function of the same name.
        assert!(!idle_in("server"), "{thread}");
    }
    let launcher = [
        "__pthread_clockjoin_ex@libc.so.6",
        "CallJavaMainInNewThread@libjli.so",
    ];
    assert!(idle(WaitReason::LOCK, &launcher));
    // A safepoint, a lock of the machine, and one of the program.
    let safepoint = [
        "syscall@libc.so.6",
        "LinuxWaitBarrier::wait@libjvm.so",
        "SafepointSynchronize::block@libjvm.so",
        "os::signal_wait@libjvm.so",
    ];
    assert!(!idle(WaitReason::LOCK, &safepoint));
    let lock = [
        "Mutex::lock@libjvm.so",
        "VMThread::wait_for_operation@libjvm.so",
    ];
    assert!(!idle(WaitReason::LOCK, &lock));
    let enter = [
        condition[0],
        "os::PlatformEvent::park@libjvm.so",
        "ObjectMonitor::EnterI@libjvm.so",
        "void java.util.TimerThread.mainLoop()@[jit]",
    ];
    assert!(!idle(WaitReason::LOCK, &enter));
}

#[test]
fn functions_of_java_have_names_where_the_machine_writes_them() {
    let wait = [
        "pthread_cond_wait@libc.so.6",
        "os::PlatformEvent::park@libjvm.so",
        "ObjectMonitor::wait@libjvm.so",
        "ObjectSynchronizer::wait@libjvm.so",
        "JVM_MonitorWait@libjvm.so",
    ];
    let named = |frames: &[&'static str]| [&wait[..], frames].concat();
    for thread in [
        "java.lang.ref.Reference java.lang.ref.ReferenceQueue.remove(long)@[jit]",
        "void java.util.TimerThread.mainLoop()@[jit]",
    ] {
        for leaf in [
            "void java.lang.Object.wait(long)@[jit]",
            "Interpreter@[jit]",
        ] {
            assert!(idle(WaitReason::LOCK, &named(&[leaf, thread])), "{thread}");
        }
    }
    // Without names it could be any thread that waits for another.
    assert!(!idle(
        WaitReason::LOCK,
        &named(&["@[jit]", "JavaCalls::call_helper@libjvm.so"])
    ));
    let interpreted = ["Interpreter@[jit]", "JavaCalls::call_helper@libjvm.so"];
    assert!(!idle(WaitReason::LOCK, &named(&interpreted)));
    assert!(idle(
        WaitReason::LOCK,
        &[
            "Parker::park@libjvm.so",
            "Unsafe_Park@libjvm.so",
            "void java.util.concurrent.ForkJoinPool.unmanagedBlock(\
             java.util.concurrent.ForkJoinPool$ManagedBlocker)@[jit]",
            "Interpreter@[jit]",
            "java.lang.Object java.util.concurrent.LinkedBlockingQueue.take()@[jit]",
            "java.lang.Runnable java.util.concurrent.ThreadPoolExecutor.getTask()@[jit]",
        ]
    ));
}

#[test]
fn threads_of_rust_are_idle_without_tasks() {
    for pool in [
        "tokio::runtime::scheduler::multi_thread::park::Parker::park",
        "tokio::runtime::blocking::pool::Inner::run",
        "tokio::runtime::park::Inner::park",
        "rayon_core::sleep::Sleep::sleep",
        "rayon_core::registry::WorkerThread::wait_until_cold",
    ] {
        let pool = format!("{pool}@app");
        let leaf = [
            "syscall@libc.so.6",
            "std::sys::pal::unix::futex::futex_wait@app",
        ];
        let condition = "parking_lot::condvar::Condvar::wait@app";
        assert!(
            idle(WaitReason::LOCK, &[leaf[0], leaf[1], condition, &pool]),
            "{pool}"
        );
        let mutex = "std::sys::sync::mutex::futex::Mutex::lock_contended@app";
        assert!(!idle(WaitReason::LOCK, &[leaf[0], mutex, &pool]), "{pool}");
        assert!(
            !idle(WaitReason::LOCK, &[leaf[0], "app::work@app", &pool]),
            "{pool}"
        );
    }
    assert!(idle(
        WaitReason::POLL,
        &[
            "epoll_wait@libc.so.6",
            "mio::poll::Poll::poll@app",
            "tokio::runtime::io::driver::Driver::turn@app"
        ]
    ));
}

#[test]
fn threads_of_polars_are_idle_without_tasks() {
    const LIBRARY: &str = "_polars_runtime.abi3.so";
    let stack = |functions: &[&str]| -> bool {
        let functions = functions
            .iter()
            .map(|function| format!("{function}@{LIBRARY}"));
        let frames: Vec<_> = ["syscall@libc.so.6".to_owned()]
            .into_iter()
            .chain(functions)
            .collect();
        let frames: Vec<_> = frames.iter().map(|frame| &**frame).collect();
        idle(WaitReason::LOCK, &frames)
    };
    let park = "<polars_async::executor::park_group::ParkAttempt>::park_slow";
    let runner = "<polars_async::executor::Executor>::runner";
    let condition = "<parking_lot::condvar::Condvar>::wait_until_internal";
    assert!(stack(&[condition, park, runner]));
    assert!(stack(&[condition, runner]));
    assert!(stack(&[
        "<std::sync::mpmc::list::Channel<polars_ooc::spill_file::CleanRequest>>::recv::{closure#1}"
    ]));
    // The lock of the condition, and a task.
    assert!(!stack(&[
        "<parking_lot::raw_mutex::RawMutex>::lock_slow",
        park,
        runner
    ]));
    let task = "<polars_stream::nodes::group_by::GroupByNode>::start_flush";
    assert!(!stack(&[condition, task, runner]));
}

/// Of their output, and of the end of their processes.
#[test]
fn threads_of_ray_that_read_from_pipes_are_idle() {
    let read = ["__GI___libc_read@libc.so.6", "read@libc.so.6"];
    let stream = [
        "boost::iostreams::detail::file_descriptor_impl::read@_raylet.so",
        "std::basic_streambuf<char, std::char_traits<char> >::xsgetn@libstdc++.so.6.0.30",
        "std::basic_istream<char, std::char_traits<char> >::read@libstdc++.so.6.0.30",
    ];
    let dump = "std::thread::_State_impl<std::thread::_Invoker<std::tuple<ray::(anonymous namespace)::\
                StartStreamDump(std::shared_ptr<boost::iostreams::stream<boost::iostreams::\
                file_descriptor_source> >)::{lambda()#1}> > >::_M_run@_raylet.so";
    let with = |frames: &[&'static str]| [&read[..], frames].concat();
    assert!(idle(
        WaitReason::PIPE,
        &with(&[&stream[..], &[dump]].concat())
    ));
    let child = "ray::Process::Wait@raylet";
    let agent = "ray::raylet::AgentManager::StartAgent(std::function<void (std::string const&)>)::\
                 {lambda()#1}::operator()@raylet";
    assert!(idle(WaitReason::PIPE, &with(&[child, agent])));
    assert!(!idle(WaitReason::FILE, &with(&[child, agent])));
    for other in [
        &stream[..],
        &[child],
        &[child, "ray::stop@raylet"],
        &["load@server"],
    ] {
        assert!(!idle(WaitReason::PIPE, &with(other)), "{other:?}");
    }
}

#[test]
fn names_of_rust_are_mangled_in_two_ways() {
    for pool in [
        "<rayon_core::registry::WorkerThread>::wait_until_cold@app",
        "<tokio::runtime::io::driver::Driver>::turn@app",
    ] {
        assert!(idle(WaitReason::LOCK, &["syscall@libc.so.6", pool]));
    }
}

/// As a dump has them of programs that use these libraries.
#[test]
fn threads_of_numerical_libraries_and_servers_are_idle_without_work() {
    let condition = ["@libc.so.6", "std::condition_variable::wait@libstdc++.so.6"];
    for frames in [
        &[
            "Eigen::EventCount::CommitWait@libjax_common.so",
            "Eigen::ThreadPoolTempl<tsl::thread::EigenEnvironment>::WaitForWork@libjax_common.so",
        ][..],
        &[
            "std::thread::_State_impl<std::thread::_Invoker<std::tuple<arrow::internal::ThreadPool::\
             LaunchWorkersUnlocked(int)::{lambda()#1}> > >::_M_run@libarrow.so.2600",
        ],
        &["background_thread_entry@libarrow.so.2600"],
        &["duckdb::TaskScheduler::ExecuteForever@_duckdb.abi3.so"],
        &["uv_cond_wait@loop.so", "worker@loop.so"],
        &["thread_worker@workqueue.so"],
        &[
            "cnd_timedwait_ms@librdkafka.so.1",
            "rd_kafka_q_pop_serve0@librdkafka.so.1",
            "rd_kafka_broker_ops_io_serve@librdkafka.so.1",
            "rd_kafka_broker_serve@librdkafka.so.1",
        ],
        &["boost::asio::detail::scheduler::do_run_one@raylet"],
        &[
            "gpr_sleep_until@_raylet.so",
            "grpc::(anonymous namespace)::CallbackAlternativeCQ::Ref@_raylet.so",
        ],
        &["@cygrpc.cpython-312-x86_64-linux-gnu.so"],
    ] {
        let frames = [&condition[..], frames].concat();
        assert!(idle(WaitReason::LOCK, &frames), "{frames:?}");
    }
    let poller = [
        "epoll_wait@libc.so.6",
        "grpc_event_engine::experimental::Epoll1Poller::DoEpollWait@raylet",
        "grpc_event_engine::experimental::PosixEventEngine::PollerWorkInternal@raylet",
    ];
    assert!(idle(WaitReason::POLL, &poller));
}

#[test]
fn a_conditional_mutex_is_contended_only_while_it_is_locked() {
    let leaf = [
        "syscall@libc.so.6",
        "absl::lts_20250814::synchronization_internal::FutexWaiter::WaitUntil@libtf.so",
        "AbslInternalPerThreadSemWait_lts_20250814@libtf.so",
        "absl::lts_20250814::Mutex::Block@libtf.so",
    ];
    let pool = "tsl::UnboundedWorkQueue::PooledThreadFunc@libtf.so";
    let awaits = [
        &leaf[..],
        &["absl::lts_20250814::Mutex::AwaitCommon@libtf.so", pool],
    ]
    .concat();
    assert!(idle(WaitReason::LOCK, &awaits));
    let locks = [
        &leaf[..],
        &["absl::lts_20250814::Mutex::LockSlowLoop@libtf.so", pool],
    ]
    .concat();
    assert!(!idle(WaitReason::LOCK, &locks));
}

#[test]
fn threads_of_libraries_are_idle_between_regions() {
    assert!(idle(
        WaitReason::LOCK,
        &[
            "@libc-2.31.so",
            "pthread_cond_wait@libpthread-2.31.so",
            "blas_thread_server@libopenblas.so.0"
        ]
    ));
    assert!(idle(
        WaitReason::LOCK,
        &[
            "futex_wait@libgomp.so.1",
            "gomp_team_barrier_wait_end@libgomp.so.1",
            "gomp_thread_start@libgomp.so.1"
        ]
    ));
    assert!(idle(
        WaitReason::LOCK,
        &[
            "__kmp_suspend_64@libomp.so",
            "__kmp_launch_thread@libomp.so"
        ]
    ));
    assert!(idle(
        WaitReason::POLL,
        &["epoll_pwait@libc.so.6", "uv__io_poll@node", "uv_run@node"]
    ));
    assert!(!idle(
        WaitReason::LOCK,
        &[
            "pthread_mutex_lock@libc.so.6",
            "blas_thread_server@libopenblas.so.0"
        ]
    ));
}

#[test]
fn workers_of_servers_are_idle_without_requests() {
    let accepts = [
        "epoll_wait@libc.so.6",
        "event_queue_wait@uwsgi",
        "wsgi_req_accept@uwsgi",
    ];
    assert!(idle(WaitReason::POLL, &accepts));
    let lock = ["__lll_lock_wait@libc.so.6", "pthread_mutex_lock@libc.so.6"];
    let with = |function: &'static str| [&lock[..], &[function]].concat();
    // One of them accepts, the others wait for it.
    assert!(idle(WaitReason::LOCK, &with("wsgi_req_accept@uwsgi")));
    let thunder = ["uwsgi_lock_fast@uwsgi", "wsgi_req_accept@uwsgi"];
    assert!(idle(WaitReason::LOCK, &[&lock[..], &thunder].concat()));
    assert!(!idle(WaitReason::LOCK, &with("uwsgi_request_wsgi@uwsgi")));
    assert!(!idle(WaitReason::LOCK, &with("@mod_wsgi.so-3.11")));
    assert!(idle(
        WaitReason::LOCK,
        &[
            "pthread_cond_wait@libc.so.6",
            "ap_queue_pop_something@apache2"
        ]
    ));
    assert!(idle(
        WaitReason::PIPE,
        &["read@libc.so.6", "ap_mpm_podx_check@apache2"]
    ));
    for reader in ["ap_queue_pop_something@apache2", "@cv2.abi3.so"] {
        assert!(!idle(WaitReason::PIPE, &["read@libc.so.6", reader]));
    }
    assert!(idle(
        WaitReason::SLEEP,
        &[
            "select@libc.so.6",
            "apr_sleep@libapr-1.so.0",
            "@mod_wsgi.so-3.11"
        ]
    ));
    // A request that another process answers.
    assert!(!idle(
        WaitReason::POLL,
        &[
            "poll@libc.so.6",
            "apr_wait_for_io_or_timeout@libapr-1.so.0",
            "@mod_wsgi.so-3.11"
        ]
    ));
}

#[test]
fn what_is_not_known_is_not_idle() {
    assert!(!idle(WaitReason::LOCK, &[]));
    assert!(!idle(WaitReason::LOCK, &["pthread_cond_wait@libc.so.6"]));
    assert!(!idle(
        WaitReason::LOCK,
        &["pthread_cond_wait@libc.so.6", "@app", "uv_run@app"]
    ));
    let deep = ["futex@app"; 40];
    let deep = [&deep[..], &["uv_run@app"]].concat();
    assert!(!idle(WaitReason::LOCK, &deep));
}
