use agent_common::record::WaitReason;

use super::{PythonFunction, is_idle, pattern::is_in, rules::RULES};

const LIBRARY: &str = "/usr/lib/python3.12/";

/// Whether a thread is idle with these functions at its leaf: each `name@file`, of the standard
/// library where the file has no `/` in front.
fn idle(wait: WaitReason, functions: &[&str]) -> bool {
    let functions = functions.iter().map(|function| {
        let (name, file) = function.split_once('@').unwrap();
        let file = match file.strip_prefix('/') {
            Some(_) => file.to_owned(),
            None => format!("{LIBRARY}{file}"),
        };
        (name, file)
    });
    let functions: Vec<_> = functions.collect();
    let functions: Vec<_> = functions
        .iter()
        .map(|(name, file)| PythonFunction::new(name, file))
        .collect();
    is_idle(wait, &functions)
}

const THREAD: [&str; 2] = [
    "Thread._bootstrap_inner@threading.py",
    "Thread._bootstrap@threading.py",
];

fn in_thread<'a>(functions: &[&'a str]) -> Vec<&'a str> {
    [functions, &THREAD].concat()
}

#[test]
fn event_loops_are_idle_while_they_poll() {
    let asyncio = [
        "EpollSelector.select@selectors.py",
        "BaseEventLoop._run_once@asyncio/base_events.py",
        "BaseEventLoop.run_forever@asyncio/base_events.py",
    ];
    assert!(idle(WaitReason::POLL, &asyncio));
    // Without qualified names, as before 3.11.
    let old = ["select@selectors.py", "_run_once@asyncio/base_events.py"];
    assert!(idle(WaitReason::POLL, &old));
    for wait in [
        WaitReason::GIL,
        WaitReason::LOCK,
        WaitReason::RUNNABLE,
        WaitReason::NONE,
    ] {
        assert!(!idle(wait, &asyncio), "{wait:?}");
    }
    assert!(!idle(WaitReason::POLL, &asyncio[..1]));
    assert!(!idle(
        WaitReason::POLL,
        &["query@/srv/app.py", asyncio[0], asyncio[1]]
    ));
    for loops in [
        &["Runner.run@asyncio/runners.py", "run@asyncio/runners.py"][..],
        &["run@/venv/uvloop/__init__.py"],
        &["Server.run@/venv/uvicorn/server.py"],
        &["UvicornWorker.run@/venv/uvicorn/workers.py"],
        &["run_app@/venv/aiohttp/web.py"],
        &["EpollIOManager.get_events@/venv/trio/_core/_io_epoll.py"],
        &["Hub.run@/venv/gevent/hub.py"],
        &[
            "wait@/venv/eventlet/hubs/poll.py",
            "BaseHub.run@/venv/eventlet/hubs/hub.py",
        ],
        &["_PollLikeMixin.doPoll@/venv/twisted/internet/epollreactor.py"],
        &["PollReactor.doPoll@/venv/twisted/internet/pollreactor.py"],
        &["SelectReactor.doSelect@/venv/twisted/internet/selectreactor.py"],
        &["PollIOLoop.start@/venv/tornado/ioloop.py"],
    ] {
        assert!(idle(WaitReason::POLL, loops), "{loops:?}");
    }
}

#[test]
fn servers_are_idle_while_they_wait_for_connections() {
    let select = "PollSelector.select@selectors.py";
    for (wait, functions) in [
        (
            WaitReason::POLL,
            &[select, "BaseServer.serve_forever@socketserver.py"][..],
        ),
        (
            WaitReason::POLL,
            &["SyncWorker.wait@/venv/gunicorn/workers/sync.py"],
        ),
        (
            WaitReason::POLL,
            &["Arbiter.sleep@/venv/gunicorn/arbiter.py"],
        ),
        (
            WaitReason::SOCKET,
            &[
                "socket.accept@socket.py",
                "SyncWorker.accept@/venv/gunicorn/workers/sync.py",
            ],
        ),
        (
            WaitReason::POLL,
            &[select, "ThreadWorker.run@/venv/gunicorn/workers/gthread.py"],
        ),
        (
            WaitReason::POLL,
            &[
                select,
                "ThreadWorker.wait_for_and_dispatch_events@/venv/gunicorn/workers/gthread.py",
            ],
        ),
        (WaitReason::POLL, &["poll@/venv/waitress/wasyncore.py"]),
        (
            WaitReason::LOCK,
            &[
                "Condition.wait@threading.py",
                "ThreadedTaskDispatcher.handler_thread@/venv/waitress/task.py",
            ],
        ),
    ] {
        assert!(idle(wait, functions), "{functions:?}");
        assert!(!idle(WaitReason::FILE, functions), "{functions:?}");
    }
    // The connection that is served.
    let served = [
        "socket.recv_into@socket.py",
        "SyncWorker.handle@/venv/gunicorn/workers/sync.py",
    ];
    assert!(!idle(WaitReason::SOCKET, &served));
}

#[test]
fn workers_are_idle_while_their_queue_is_empty() {
    let get = ["Condition.wait@threading.py", "Queue.get@queue.py"];
    let executor = [
        "_worker@concurrent/futures/thread.py",
        "Thread.run@threading.py",
    ];
    assert!(idle(WaitReason::LOCK, &in_thread(&executor)));
    assert!(idle(
        WaitReason::LOCK,
        &in_thread(&[&get[..], &executor].concat())
    ));
    let run = "Thread.run@threading.py";
    assert!(idle(
        WaitReason::LOCK,
        &in_thread(&[get[0], get[1], "consume@/srv/app.py", run])
    ));
    assert!(idle(
        WaitReason::LOCK,
        &in_thread(&[get[0], get[1], "Consumer.run@/srv/app.py"])
    ));
    let monitor = [
        get[0],
        get[1],
        "QueueListener.dequeue@logging/handlers.py",
        "QueueListener._monitor@logging/handlers.py",
    ];
    assert!(idle(WaitReason::LOCK, &in_thread(&monitor)));
    assert!(idle(
        WaitReason::LOCK,
        &in_thread(&[get[0], "Queue._feed@multiprocessing/queues.py", run])
    ));
    // An answer that the program waits for, a lock of its own, a task that it runs.
    let answer = [
        get[0],
        get[1],
        "call@/srv/app.py",
        "handle@/srv/app.py",
        run,
    ];
    assert!(!idle(WaitReason::LOCK, &in_thread(&answer)));
    assert!(!idle(
        WaitReason::LOCK,
        &in_thread(&["consume@/srv/app.py", run])
    ));
    let task = [
        "work@/srv/app.py",
        "_WorkItem.run@concurrent/futures/thread.py",
        executor[0],
    ];
    assert!(!idle(WaitReason::LOCK, &task));
    assert!(!idle(
        WaitReason::LOCK,
        &[
            "Condition.wait@threading.py",
            "Future.result@concurrent/futures/_base.py"
        ]
    ));
}

#[test]
fn timers_are_idle_until_it_is_time() {
    let event = ["Condition.wait@threading.py", "Event.wait@threading.py"];
    let timer = in_thread(&[event[0], event[1], "Timer.run@threading.py"]);
    assert!(idle(WaitReason::LOCK, &timer));
    let scheduler = "BlockingScheduler._main_loop@/venv/apscheduler/schedulers/blocking.py";
    assert!(idle(WaitReason::LOCK, &[event[0], event[1], scheduler]));
    assert!(idle(
        WaitReason::SLEEP,
        &["Service.start@/venv/celery/beat.py"]
    ));
    assert!(!idle(
        WaitReason::LOCK,
        &in_thread(&[event[0], event[1], "work@/srv/app.py"])
    ));
}

#[test]
fn processes_of_pools_are_idle_without_work() {
    let receive = [
        "Connection._recv@multiprocessing/connection.py",
        "Connection._recv_bytes@multiprocessing/connection.py",
        "_ConnectionBase.recv_bytes@multiprocessing/connection.py",
        "SimpleQueue.get@multiprocessing/queues.py",
    ];
    let lock = [
        "SemLock.__enter__@multiprocessing/synchronize.py",
        "SimpleQueue.get@multiprocessing/queues.py",
    ];
    for worker in [
        "worker@multiprocessing/pool.py",
        "Pool._handle_results@multiprocessing/pool.py",
        "_process_worker@concurrent/futures/process.py",
        "_process_worker@/venv/joblib/externals/loky/process_executor.py",
        "Worker.wait_for_job@/venv/billiard/pool.py",
    ] {
        let stack = [&receive[..], &[worker]].concat();
        assert!(idle(WaitReason::PIPE, &stack), "{worker}");
        assert!(
            idle(WaitReason::LOCK, &[lock[0], lock[1], worker]),
            "{worker}"
        );
    }
    let poll = [
        "PollSelector.select@selectors.py",
        "wait@multiprocessing/connection.py",
    ];
    for manager in [
        "Pool._wait_for_updates@multiprocessing/pool.py",
        "_ExecutorManagerThread.wait_result_broken_or_wakeup@concurrent/futures/process.py",
        "_ExecutorManagerThread.wait_result_broken_or_wakeup@/venv/loky/process_executor.py",
    ] {
        assert!(
            idle(WaitReason::POLL, &[poll[0], poll[1], manager]),
            "{manager}"
        );
    }
    for thread in ["worker", "Pool._handle_tasks", "Pool._handle_workers"] {
        let thread = format!("{thread}@multiprocessing/pool.py");
        assert!(idle(WaitReason::LOCK, &[&thread]), "{thread}");
    }
    // What a task itself receives.
    let task = [
        &receive[..],
        &["work@/srv/app.py", "worker@multiprocessing/pool.py"],
    ]
    .concat();
    assert!(!idle(WaitReason::PIPE, &task));
}

#[test]
fn servers_of_processes_are_idle_without_requests() {
    let accept = [
        "socket.accept@socket.py",
        "SocketListener.accept@multiprocessing/connection.py",
    ];
    for server in [
        "Server.accepter@multiprocessing/managers.py",
        "_ResourceSharer._serve@multiprocessing/resource_sharer.py",
    ] {
        assert!(
            idle(WaitReason::SOCKET, &[accept[0], accept[1], server]),
            "{server}"
        );
    }
    let receive = "Connection._recv@multiprocessing/connection.py";
    assert!(idle(
        WaitReason::SOCKET,
        &[receive, "Server.serve_client@multiprocessing/managers.py"]
    ));
    assert!(idle(
        WaitReason::PIPE,
        &["main@multiprocessing/resource_tracker.py"]
    ));
    assert!(idle(
        WaitReason::POLL,
        &[
            "PollSelector.select@selectors.py",
            "main@multiprocessing/forkserver.py"
        ]
    ));
}

/// As who joins a thread, or waits for a program.
#[test]
fn who_waits_for_the_end_of_a_process_is_not_idle() {
    let join = [
        "Popen.poll@multiprocessing/popen_fork.py",
        "Popen.wait@multiprocessing/popen_fork.py",
        "BaseProcess.join@multiprocessing/process.py",
    ];
    assert!(!idle(WaitReason::CHILD, &join));
    let timed = [
        "PollSelector.select@selectors.py",
        "wait@multiprocessing/connection.py",
        join[1],
        join[2],
    ];
    assert!(!idle(WaitReason::POLL, &timed));
    assert!(!idle(
        WaitReason::CHILD,
        &["Popen._wait@subprocess.py", "run@subprocess.py"]
    ));
}

#[test]
fn workers_of_celery_are_idle_without_messages() {
    for hub in [
        "/venv/kombu/asynchronous/hub.py",
        "/venv/kombu/async/hub.py",
    ] {
        let hub = format!("Hub.create_loop@{hub}");
        assert!(idle(
            WaitReason::POLL,
            &["_epoll.poll@/venv/kombu/utils/eventio.py", &hub]
        ));
    }
    let drained = [
        "Transport.read@/venv/amqp/transport.py",
        "Connection.drain_events@/venv/kombu/connection.py",
        "synloop@/venv/celery/worker/loops.py",
    ];
    assert!(idle(WaitReason::SOCKET, &drained));
    assert!(!idle(WaitReason::SOCKET, &drained[..2]));
}

#[test]
fn files_are_compared_by_their_last_components() {
    assert!(is_in("/usr/lib/python3.12/selectors.py", "selectors.py"));
    assert!(is_in("selectors.py", "selectors.py"));
    assert!(!is_in("/srv/my_selectors.py", "selectors.py"));
    assert!(is_in("/venv/kombu/transport/base.py", "kombu/"));
    assert!(is_in("kombu/connection.py", "kombu/"));
    assert!(!is_in("/venv/mykombu/x.py", "kombu/"));
    assert!(!is_in("größe", "selectors.py"));
}

#[test]
fn no_rule_is_met_by_no_functions() {
    for rule in RULES {
        assert!(!rule.matches(&[]), "{rule:?}");
        assert!(!rule.waits.is_empty());
    }
}

/// As a dump has them of programs that use these libraries.
#[test]
fn threads_of_known_libraries_are_idle_without_work() {
    const CONDITION: [&str; 2] = ["Condition.wait@threading.py", "Event.wait@threading.py"];
    let packages = "/usr/lib/python3/site-packages";
    for (wait, leaf, function) in [
        (
            WaitReason::LOCK,
            &[CONDITION[0], "Queue.get@queue.py"][..],
            "WorkerThread._process_connections_until_interrupted@cheroot/workers/threadpool.py",
        ),
        (WaitReason::SLEEP, &[], "Supervisor.body@billiard/pool.py"),
        (WaitReason::POLL, &[], "_serve@grpc/_server.py"),
        (
            WaitReason::LOCK,
            &CONDITION,
            "PeriodicExportingMetricReader._ticker@opentelemetry/sdk/metrics/_internal/export/__init__.py",
        ),
        (
            WaitReason::POLL,
            &[],
            "InotifyFD._check_inotify_fd@watchdog/observers/inotify_c.py",
        ),
        (WaitReason::SLEEP, &[], "_watch@distributed/profile.py"),
        (
            WaitReason::PIPE,
            &[],
            "OutStream._watch_pipe_fd@ipykernel/iostream.py",
        ),
    ] {
        let (name, file) = function.split_once('@').unwrap();
        let function = format!("{name}@{packages}/{file}");
        let functions = [leaf, &[&*function]].concat();
        assert!(idle(wait, &functions), "{functions:?}");
        assert!(!idle(WaitReason::FILE, &functions), "{functions:?}");
        let below = [leaf, &["work@/srv/app.py", &*function]].concat();
        assert!(!idle(wait, &below), "{below:?}");
    }
}

#[test]
fn masters_and_reloaders_of_servers_are_idle() {
    const EVENT: [&str; 2] = ["Condition.wait@threading.py", "Event.wait@threading.py"];
    let signals = "Arbiter.wait_for_signals@/venv/gunicorn/arbiter.py";
    // The queue is written in C, and without a frame.
    assert!(idle(WaitReason::LOCK, &[signals]));
    assert!(!idle(WaitReason::FILE, &[signals]));
    for supervisor in [
        "Multiprocess.run@/venv/uvicorn/supervisors/multiprocess.py",
        "BaseReload.pause@/venv/uvicorn/supervisors/basereload.py",
    ] {
        assert!(idle(WaitReason::LOCK, &[EVENT[0], EVENT[1], supervisor]));
        assert!(!idle(WaitReason::POLL, &[supervisor]), "{supervisor}");
    }
    let pong = [
        "Connection._recv@multiprocessing/connection.py",
        "Connection._recv_bytes@multiprocessing/connection.py",
        "_ConnectionBase.recv@multiprocessing/connection.py",
        "Process.pong@/venv/uvicorn/supervisors/multiprocess.py",
    ];
    assert!(idle(WaitReason::SOCKET, &pong));
    // The answer that the master waits for.
    let health = "Process._healthcheck@/venv/uvicorn/supervisors/multiprocess.py";
    assert!(!idle(WaitReason::SOCKET, &[pong[0], pong[1], health]));

    let child = [
        "Popen._try_wait@subprocess.py",
        "Popen._wait@subprocess.py",
        "Popen.wait@subprocess.py",
        "Popen.communicate@subprocess.py",
        "run@subprocess.py",
    ];
    let reloader = "restart_with_reloader@/venv/django/utils/autoreload.py";
    assert!(idle(WaitReason::CHILD, &[&child[..], &[reloader]].concat()));
    let own = [&child[..], &["build@/srv/app.py", reloader]].concat();
    assert!(!idle(WaitReason::CHILD, &own));
    let tick = "StatReloader.tick@/venv/django/utils/autoreload.py";
    assert!(idle(WaitReason::SLEEP, &[tick]));
    assert!(!idle(WaitReason::FILE, &[tick]));
}

#[test]
fn workers_of_tests_and_of_ray_are_idle_without_tasks() {
    const CONDITION: [&str; 2] = ["Condition.wait@threading.py", "Event.wait@threading.py"];
    let receiver = [
        "Popen2IO.read@/venv/execnet/gateway_base.py",
        "Message.from_io@/venv/execnet/gateway_base.py",
        "BaseGateway._thread_receiver@/venv/execnet/gateway_base.py",
    ];
    assert!(idle(WaitReason::PIPE, &receiver));
    assert!(!idle(WaitReason::PIPE, &receiver[..2]));
    for main in [
        "WorkerPool.integrate_as_primary_thread@/venv/execnet/gateway_base.py",
        "TestQueue.get@/venv/xdist/remote.py",
    ] {
        let stack = [CONDITION[0], CONDITION[1], main];
        assert!(idle(WaitReason::LOCK, &stack), "{main}");
        let test = [CONDITION[0], CONDITION[1], "test@/srv/test_app.py", main];
        assert!(!idle(WaitReason::LOCK, &test), "{main}");
    }
    let controller = "DSession.loop_once@/venv/xdist/dsession.py";
    let queue = [CONDITION[0], "Queue.get@queue.py", controller];
    assert!(idle(WaitReason::LOCK, &queue));
    let feeder = "Queue._feed@/venv/joblib/externals/loky/backend/queues.py";
    assert!(idle(WaitReason::LOCK, &[CONDITION[0], feeder]));
    let anyio = "WorkerThread.run@/venv/anyio/_backends/_asyncio.py";
    assert!(idle(
        WaitReason::LOCK,
        &in_thread(&[queue[0], queue[1], anyio])
    ));

    let parent = "_check_parent_via_pipe.<locals>.<lambda>@/venv/ray/_private/process_watcher.py";
    let worker = "Worker.main_loop@/venv/ray/_private/worker.py";
    for (wait, other, function) in [
        (WaitReason::PIPE, WaitReason::FILE, parent),
        (WaitReason::POLL, WaitReason::LOCK, worker),
        (
            WaitReason::LOCK,
            WaitReason::SOCKET,
            "Worker.print_logs@/venv/ray/_private/worker.py",
        ),
        (
            WaitReason::POLL,
            WaitReason::SOCKET,
            "listen_error_messages@/venv/ray/_private/worker.py",
        ),
    ] {
        assert!(idle(wait, &[function]), "{function}");
        assert!(!idle(other, &[function]), "{function}");
        assert!(!idle(wait, &["task@/srv/app.py", function]), "{function}");
    }
}
