//! A strict collector beside a test.

use std::{
    sync::{Arc, mpsc},
    thread,
};

use collector_doubles::server::{Check, Received, Reply, Server};
use tokio::{runtime, sync::oneshot};

/// A collector in a thread of its own; gone when it is dropped.
pub(crate) struct Strict {
    server: Arc<Server>,
    _running: oneshot::Sender<()>,
}

impl Strict {
    /// One that says so of what it gets.
    pub(crate) fn start(check: Check) -> Self {
        let (started, start) = mpsc::channel();
        let (running, end) = oneshot::channel::<()>();
        thread::spawn(move || {
            let runtime = runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                started.send(Arc::new(Server::start(check).await)).unwrap();
                // That nobody is at the other end is the end too.
                drop(end.await);
            });
        });
        Self {
            server: start.recv().unwrap(),
            _running: running,
        }
    }

    /// Where it is.
    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    /// What it answers next, whatever comes.
    pub(crate) fn say(&self, reply: Reply) {
        self.server.enqueue_reply(reply);
    }

    /// All that it has taken.
    pub(crate) fn received(&self) -> Vec<Received> {
        self.server.received()
    }
}
