//! The rules, as data.
//!
//! Invariant: a rule begins at the leaf; only functions that wait for others may come before the loop
//! that it names.

use agent_common::record::WaitReason;

use super::pattern::{
    Pattern::{self, Any, Many, One},
    Rule,
};

/// Descriptors that become ready.
const READY: &[WaitReason] = &[WaitReason::POLL];
/// A connection that is accepted.
const ACCEPT: &[WaitReason] = &[WaitReason::SOCKET, WaitReason::POLL];
/// An item of a queue within the process, or the end of a time.
const QUEUE: &[WaitReason] = &[WaitReason::LOCK, WaitReason::SLEEP];
/// An item of a queue of another process.
const PIPE: &[WaitReason] = &[
    WaitReason::PIPE,
    WaitReason::SOCKET,
    WaitReason::POLL,
    WaitReason::LOCK,
];
/// The end of a time.
const TIME: &[WaitReason] = &[WaitReason::SLEEP, WaitReason::LOCK];
/// A message of a broker.
const BROKER: &[WaitReason] = &[WaitReason::SOCKET, WaitReason::POLL, WaitReason::SLEEP];
/// A queue of a library that is not written in Python.
const COMPLETION: &[WaitReason] = &[WaitReason::LOCK, WaitReason::POLL];
/// A child process.
const CHILD: &[WaitReason] = &[WaitReason::CHILD, WaitReason::POLL];

/// A selector.
const SELECTOR: Pattern = One(&[("select", "selectors.py")]);
/// A condition or an event.
const CONDITION: Pattern = Many(&[("wait", "threading.py"), ("wait_for", "threading.py")]);
/// A queue of threads.
const GET: Pattern = One(&[("get", "queue.py")]);
/// The same, where it is written in C, without a frame.
const MAYBE_GET: Pattern = Many(&[("get", "queue.py"), ("wait", "threading.py")]);
/// A queue of processes.
const RECEIVE: Pattern = Many(&[
    ("*", "multiprocessing/connection.py"),
    ("*", "multiprocessing/queues.py"),
    ("*", "multiprocessing/synchronize.py"),
    ("*", "billiard/connection.py"),
    ("*", "billiard/queues.py"),
    ("*", "billiard/synchronize.py"),
    ("*", "billiard/compat.py"),
    ("*", "loky/backend/queues.py"),
    ("select", "selectors.py"),
    ("_recv", "billiard/pool.py"),
    ("receive", "billiard/pool.py"),
    ("_poll_result", "billiard/pool.py"),
]);

/// Of a task: what it awaits.
const AWAIT: &[WaitReason] = &[WaitReason::AWAIT];

/// Every rule.
pub(super) const RULES: &[Rule] = &[
    // Event loops.
    rule(
        READY,
        &[SELECTOR, One(&[("_run_once", "asyncio/base_events.py")])],
    ),
    // The loop of uvloop is written in C.
    rule(
        READY,
        &[One(&[
            ("run", "asyncio/runners.py"),
            ("run", "uvloop/__init__.py"),
            ("run", "uvicorn/server.py"),
            ("run", "uvicorn/workers.py"),
            ("run_app", "aiohttp/web.py"),
        ])],
    ),
    rule(READY, &[One(&[("get_events", "trio/_core/_io_epoll.py")])]),
    rule(READY, &[One(&[("run", "gevent/hub.py")])]),
    rule(
        READY,
        &[
            Many(&[
                ("*", "eventlet/hubs/epolls.py"),
                ("*", "eventlet/hubs/poll.py"),
                ("*", "eventlet/hubs/selects.py"),
            ]),
            One(&[("run", "eventlet/hubs/hub.py")]),
        ],
    ),
    rule(
        READY,
        &[One(&[
            ("doPoll", "twisted/internet/epollreactor.py"),
            ("doPoll", "twisted/internet/pollreactor.py"),
            ("doSelect", "twisted/internet/selectreactor.py"),
        ])],
    ),
    rule(READY, &[One(&[("start", "tornado/ioloop.py")])]),
    // Servers.
    rule(
        READY,
        &[SELECTOR, One(&[("serve_forever", "socketserver.py")])],
    ),
    rule(
        READY,
        &[One(&[
            ("wait", "gunicorn/workers/sync.py"),
            ("sleep", "gunicorn/arbiter.py"),
        ])],
    ),
    rule(
        QUEUE,
        &[
            MAYBE_GET,
            One(&[("wait_for_signals", "gunicorn/arbiter.py")]),
        ],
    ),
    rule(
        ACCEPT,
        &[
            Many(&[("accept", "socket.py")]),
            One(&[("accept", "gunicorn/workers/sync.py")]),
        ],
    ),
    rule(
        READY,
        &[
            SELECTOR,
            One(&[
                ("run", "gunicorn/workers/gthread.py"),
                (
                    "wait_for_and_dispatch_events",
                    "gunicorn/workers/gthread.py",
                ),
            ]),
        ],
    ),
    rule(
        READY,
        &[One(&[
            ("poll", "waitress/wasyncore.py"),
            ("poll2", "waitress/wasyncore.py"),
        ])],
    ),
    rule(
        QUEUE,
        &[CONDITION, One(&[("handler_thread", "waitress/task.py")])],
    ),
    // Threads that wait for items of a queue.
    rule(
        QUEUE,
        &[
            MAYBE_GET,
            One(&[("_worker", "concurrent/futures/thread.py")]),
        ],
    ),
    rule(
        QUEUE,
        &[CONDITION, GET, Any, One(&[("run", "threading.py")])],
    ),
    rule(
        QUEUE,
        &[
            CONDITION,
            GET,
            One(&[("run", "*")]),
            One(&[("_bootstrap_inner", "threading.py")]),
        ],
    ),
    rule(
        QUEUE,
        &[
            MAYBE_GET,
            Many(&[("dequeue", "logging/handlers.py")]),
            One(&[("_monitor", "logging/handlers.py")]),
        ],
    ),
    rule(
        QUEUE,
        &[
            CONDITION,
            One(&[
                ("_feed", "multiprocessing/queues.py"),
                ("_feed", "loky/backend/queues.py"),
            ]),
        ],
    ),
    // Timers and schedulers.
    rule(
        TIME,
        &[
            CONDITION,
            One(&[("run", "threading.py")]),
            One(&[("_bootstrap_inner", "threading.py")]),
        ],
    ),
    rule(
        TIME,
        &[
            CONDITION,
            One(&[("_main_loop", "apscheduler/schedulers/blocking.py")]),
        ],
    ),
    rule(TIME, &[One(&[("start", "celery/beat.py")])]),
    // Processes of pools, and the threads that serve them.
    rule(
        PIPE,
        &[
            RECEIVE,
            One(&[
                ("worker", "multiprocessing/pool.py"),
                ("_handle_results", "multiprocessing/pool.py"),
                ("_wait_for_updates", "multiprocessing/pool.py"),
                ("_process_worker", "concurrent/futures/process.py"),
                ("_process_worker", "loky/process_executor.py"),
                (
                    "wait_result_broken_or_wakeup",
                    "concurrent/futures/process.py",
                ),
                ("wait_result_broken_or_wakeup", "loky/process_executor.py"),
                ("wait_for_job", "billiard/pool.py"),
                ("workloop", "billiard/pool.py"),
                ("_process_result", "billiard/pool.py"),
                ("monitor_parent", "distributed/process.py"),
                ("watch_stop_q", "distributed/nanny.py"),
            ]),
        ],
    ),
    rule(
        QUEUE,
        &[
            MAYBE_GET,
            One(&[
                ("worker", "multiprocessing/pool.py"),
                ("_handle_tasks", "multiprocessing/pool.py"),
                ("_handle_results", "multiprocessing/pool.py"),
                ("_handle_workers", "multiprocessing/pool.py"),
                ("body", "billiard/pool.py"),
            ]),
        ],
    ),
    rule(
        PIPE,
        &[
            Many(&[
                ("accept", "socket.py"),
                ("accept", "multiprocessing/connection.py"),
            ]),
            One(&[
                ("accepter", "multiprocessing/managers.py"),
                ("_serve", "multiprocessing/resource_sharer.py"),
            ]),
        ],
    ),
    rule(
        PIPE,
        &[
            RECEIVE,
            One(&[("serve_client", "multiprocessing/managers.py")]),
        ],
    ),
    rule(
        PIPE,
        &[
            RECEIVE,
            One(&[
                ("main", "multiprocessing/forkserver.py"),
                ("main", "multiprocessing/resource_tracker.py"),
            ]),
        ],
    ),
    // Celery.
    rule(
        READY,
        &[
            Many(&[("poll", "kombu/utils/eventio.py")]),
            One(&[
                ("create_loop", "kombu/asynchronous/hub.py"),
                ("create_loop", "kombu/async/hub.py"),
            ]),
        ],
    ),
    rule(
        BROKER,
        &[
            Many(&[
                ("*", "kombu/"),
                ("*", "amqp/"),
                ("*", "redis/"),
                ("select", "selectors.py"),
                ("_loop_cycle", "celery/worker/loops.py"),
            ]),
            One(&[("synloop", "celery/worker/loops.py")]),
        ],
    ),
    // Servers that supervise others.
    rule(
        CHILD,
        &[
            SELECTOR,
            One(&[("wait", "multiprocessing/connection.py")]),
            One(&[("run", "hypercorn/run.py")]),
        ],
    ),
    rule(
        QUEUE,
        &[
            CONDITION,
            One(&[
                ("_serve_loop", "granian/server/common.py"),
                ("_main", "granian/server/mp.py"),
                ("run", "uvicorn/supervisors/multiprocess.py"),
                ("pause", "uvicorn/supervisors/basereload.py"),
            ]),
        ],
    ),
    rule(
        PIPE,
        &[
            RECEIVE,
            One(&[("pong", "uvicorn/supervisors/multiprocess.py")]),
        ],
    ),
    // The parent process of Django's server, with which it starts again.
    rule(
        CHILD,
        &[
            Many(&[("*", "subprocess.py")]),
            One(&[("restart_with_reloader", "django/utils/autoreload.py")]),
        ],
    ),
    // CherryPy.
    rule(
        READY,
        &[
            SELECTOR,
            Many(&[("select", "cheroot/connections.py")]),
            One(&[("_run", "cheroot/connections.py")]),
        ],
    ),
    rule(
        QUEUE,
        &[
            CONDITION,
            GET,
            One(&[(
                "_process_connections_until_interrupted",
                "cheroot/workers/threadpool.py",
            )]),
        ],
    ),
    // gRPC, also below Ray, whose queues are written in C++.
    rule(
        COMPLETION,
        &[One(&[
            ("_serve", "grpc/_server.py"),
            ("channel_spin", "grpc/_channel.py"),
            ("_poll_connectivity", "grpc/_channel.py"),
            ("print_logs", "ray/_private/worker.py"),
            ("listen_error_messages", "ray/_private/worker.py"),
        ])],
    ),
    rule(
        TIME,
        &[
            CONDITION,
            Many(&[("*", "grpc/_common.py")]),
            One(&[("wait_for_termination", "grpc/_server.py")]),
        ],
    ),
    // Threads of libraries that send or look after something from time to time.
    rule(
        TIME,
        &[One(&[
            ("_run", "pymongo/periodic_executor.py"),
            ("body", "billiard/pool.py"),
            ("run", "celery/utils/timer2.py"),
            ("_watch", "distributed/profile.py"),
            ("wait", "cherrypy/process/wspbus.py"),
            ("run", "cherrypy/process/plugins.py"),
            ("run", "ray/_private/log_monitor.py"),
            ("_run", "ray/autoscaler/_private/monitor.py"),
            ("run", "ipykernel/parentpoller.py"),
            ("tick", "django/utils/autoreload.py"),
        ])],
    ),
    rule(
        TIME,
        &[
            CONDITION,
            Many(&[("get", "sentry_sdk/_queue.py")]),
            One(&[
                ("_target", "sentry_sdk/worker.py"),
                ("worker", "opentelemetry/sdk/_shared_internal/__init__.py"),
                ("worker", "opentelemetry/sdk/trace/export/__init__.py"),
                (
                    "_ticker",
                    "opentelemetry/sdk/metrics/_internal/export/__init__.py",
                ),
                ("run", "ray/_private/gc_collect_manager.py"),
                ("run", "IPython/core/history.py"),
            ]),
        ],
    ),
    // Ray: tasks of a worker, and the end of the parent process.
    rule(READY, &[One(&[("main_loop", "ray/_private/worker.py")])]),
    rule(
        PIPE,
        &[One(&[("<lambda>", "ray/_private/process_watcher.py")])],
    ),
    // execnet, and pytest-xdist.
    rule(
        PIPE,
        &[
            One(&[
                ("read", "execnet/gateway_base.py"),
                ("read", "execnet/gateway_socket.py"),
            ]),
            One(&[("from_io", "execnet/gateway_base.py")]),
            One(&[("_thread_receiver", "execnet/gateway_base.py")]),
        ],
    ),
    rule(
        QUEUE,
        &[
            CONDITION,
            One(&[
                ("integrate_as_primary_thread", "execnet/gateway_base.py"),
                ("get", "xdist/remote.py"),
            ]),
        ],
    ),
    rule(
        QUEUE,
        &[CONDITION, GET, One(&[("loop_once", "xdist/dsession.py")])],
    ),
    // Changes of files.
    rule(
        READY,
        &[One(&[(
            "_check_inotify_fd",
            "watchdog/observers/inotify_c.py",
        )])],
    ),
    rule(
        QUEUE,
        &[
            CONDITION,
            Many(&[
                ("get", "queue.py"),
                ("get", "watchdog/utils/delayed_queue.py"),
            ]),
            One(&[
                ("dispatch_events", "watchdog/observers/api.py"),
                (
                    "read_event",
                    "watchdog/observers/inotify_move_event_grouper.py",
                ),
                ("read_event", "watchdog/observers/inotify_buffer.py"),
            ]),
        ],
    ),
    // Tasks of asyncio.
    rule(
        AWAIT,
        &[One(&[
            ("get", "asyncio/queues.py"),
            ("serve_forever", "asyncio/base_events.py"),
        ])],
    ),
    // The loop that looks whether its server is to end.
    rule(
        AWAIT,
        &[
            One(&[("sleep", "asyncio/tasks.py")]),
            One(&[
                ("main_loop", "uvicorn/server.py"),
                ("_run_app", "aiohttp/web.py"),
            ]),
        ],
    ),
    // Jupyter.
    rule(PIPE, &[One(&[("_watch_pipe_fd", "ipykernel/iostream.py")])]),
    rule(
        READY,
        &[
            Many(&[("*", "zmq/")]),
            One(&[("run", "ipykernel/heartbeat.py")]),
        ],
    ),
];

const fn rule(waits: &'static [WaitReason], functions: &'static [Pattern]) -> Rule {
    Rule { waits, functions }
}
