//! A job and its result.

use std::{
    future::Future as _,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError, atomic::AtomicBool},
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};

use tokio::sync::oneshot;

use super::{failure::Failure, quarantine::Subject};

/// How often whoever waits for a result is asked whether it is still wanted.
const WANTED_INTERVAL: Duration = Duration::from_millis(20);

/// A job that waits or runs.
pub(super) struct Job {
    pub(super) subject: Subject,
    pub(super) limit: Duration,
    pub(super) is_abandoned: Arc<AtomicBool>,
    /// Does the work, and returns what answers with its result, unless [`Self::fail`] has answered.
    pub(super) run: Box<dyn FnOnce() -> Box<dyn FnOnce()> + Send>,
    /// Answers that there is no result, unless it was answered.
    pub(super) fail: Arc<dyn Fn(Failure) + Send + Sync>,
}

impl Job {
    pub(super) fn new<T: Send + 'static>(
        subject: Subject,
        limit: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> (Self, Pending<T>) {
        let (sender, receiver) = oneshot::channel();
        let reply = Arc::new(Mutex::new(Some(sender)));
        let other = Arc::clone(&reply);
        let job = Self {
            subject,
            limit,
            is_abandoned: Arc::default(),
            run: Box::new(move || {
                let result = work();
                Box::new(move || answer(&reply, Ok(result)))
            }),
            fail: Arc::new(move |failure| answer(&other, Err(failure))),
        };
        (job, Pending(receiver))
    }
}

type Reply<T> = Mutex<Option<oneshot::Sender<Result<T, Failure>>>>;

fn answer<T>(reply: &Reply<T>, result: Result<T, Failure>) {
    let sender = reply.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(sender) = sender {
        // Whoever submitted the job may not want its result any more.
        let _ = sender.send(result);
    }
}

/// The result of a job, when it has ended.
#[derive(Debug)]
pub struct Pending<T>(oneshot::Receiver<Result<T, Failure>>);

impl<T> Pending<T> {
    /// Waits for the result.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub async fn result(self) -> Result<T, Failure> {
        self.0.await.unwrap_or(Err(Failure::Overloaded))
    }

    /// Waits for the result outside of a runtime.
    ///
    /// # Errors
    ///
    /// When there is none.
    #[cfg(test)]
    pub fn wait(mut self) -> Result<T, Failure> {
        self.wait_while(|| true).expect("it is wanted")
    }

    /// Waits for the result outside of a runtime, while `is_wanted`; [`None`] when it is not any more.
    ///
    /// # Errors
    ///
    /// When there is no result.
    pub fn wait_while(&mut self, is_wanted: impl Fn() -> bool) -> Option<Result<T, Failure>> {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut context = Context::from_waker(&waker);
        loop {
            match Pin::new(&mut self.0).poll(&mut context) {
                Poll::Ready(result) => return Some(result.unwrap_or(Err(Failure::Overloaded))),
                Poll::Pending if is_wanted() => thread::park_timeout(WANTED_INTERVAL),
                Poll::Pending => return None,
            }
        }
    }
}

/// Wakes a thread that waits for a result.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
