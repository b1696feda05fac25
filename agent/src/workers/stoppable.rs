//! A thread that ends when it is asked to, or is left behind.

use std::{
    sync::mpsc::{self, RecvTimeoutError},
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context as _, Result};

/// A thread that is told to end by a channel.
#[derive(Debug)]
pub struct StoppableThread {
    stop: mpsc::Sender<()>,
    ended: mpsc::Receiver<()>,
    handle: JoinHandle<()>,
}

impl StoppableThread {
    /// Starts a thread that runs until its channel has a message, or nobody sends any more.
    ///
    /// # Errors
    ///
    /// When the thread cannot be started.
    pub fn start(
        name: &str,
        run: impl FnOnce(&mpsc::Receiver<()>) + Send + 'static,
    ) -> Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let handle = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                run(&stopped);
                // Nobody may wait for it.
                let _ = end.send(());
            })
            .context("cannot start a thread")?;
        Ok(Self {
            stop,
            ended,
            handle,
        })
    }

    /// Whether it has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }

    /// Tells it to end.
    pub fn ask(&self) {
        // It may have ended.
        let _ = self.stop.send(());
    }

    /// Tells it to end, and waits for that; a thread that something holds up for longer than `limit` is left behind.
    /// Returns whether it has ended.
    pub fn stop(self, limit: Duration) -> bool {
        self.ask();
        let has_ended = self.ended.recv_timeout(limit) != Err(RecvTimeoutError::Timeout);
        if has_ended {
            // It has panicked: that was printed.
            let _ = self.handle.join();
        }
        has_ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_when_it_is_asked_to() {
        let thread = StoppableThread::start("test", |stopped| stopped.recv().unwrap()).unwrap();
        assert!(!thread.is_finished());
        assert!(thread.stop(Duration::from_secs(60)));
    }

    #[test]
    fn one_that_is_held_up_is_left_behind() {
        let (free, held) = mpsc::channel::<()>();
        let thread = StoppableThread::start("test", move |_| {
            let _ = held.recv();
        });
        assert!(!thread.unwrap().stop(Duration::from_millis(1)));
        // It was not waited for.
        drop(free);
    }
}
