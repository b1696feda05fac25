//! A strict collector for a test.

use std::{
    sync::{Arc, mpsc},
    thread,
};

use collector_doubles::server::{Check, Received, Reply, Server};
use tokio::{runtime, sync::oneshot};

/// A collector in a thread of its own, stopped when it is dropped.
pub(crate) struct Strict {
    server: Arc<Server>,
    _running: oneshot::Sender<()>,
}

impl Strict {
    /// Starts one that replies to requests with the result of this check.
    pub(crate) fn start(check: Check) -> Self {
        let (started, start) = mpsc::channel();
        let (running, end) = oneshot::channel::<()>();
        thread::spawn(move || {
            let runtime = runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                started.send(Arc::new(Server::start(check).await)).unwrap();
                // A dropped sender ends it too.
                drop(end.await);
            });
        });
        Self {
            server: start.recv().unwrap(),
            _running: running,
        }
    }

    /// Its URL.
    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    /// Sets the reply to the next request, whatever that is.
    pub(crate) fn say(&self, reply: Reply) {
        self.server.enqueue_reply(reply);
    }

    /// All requests that it has accepted.
    pub(crate) fn received(&self) -> Vec<Received> {
        self.server.received()
    }
}
