//! Windows of a session: what was sampled from one moment to another.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::{Observer, Session};
use crate::aggregate::Window;

/// Most time that a window waits for examinations of its processes when it has ended.
const SETTLE_LIMIT: Duration = Duration::from_millis(500);

impl Session {
    /// Closes the window and starts the next; returns it when its processes are known, as far as they
    /// are within a moment.
    ///
    /// # Errors
    ///
    /// When a map cannot be written, or the ring buffer is no longer read.
    pub async fn take_window<O: Observer>(&mut self, observer: &mut O) -> Result<Window> {
        let mut window = self.drain.take_window().await?;
        if let Some(raises) = &self.raises {
            let estimate = raises.take_estimate();
            window.set_unrecorded(estimate.unrecorded_ms, estimate.variance);
            window.correct_raises(estimate.owed);
        }
        if let Some(allocations) = &mut self.allocations {
            window.set_probe_cost(allocations.take_cost()?);
        }
        self.settle(observer).await?;
        Ok(window)
    }

    /// Opens a window in addition to the one that is always open, and returns its number.
    ///
    /// # Errors
    ///
    /// When the ring buffer is no longer read.
    pub async fn open_window(&self) -> Result<u64> {
        self.drain.open_window().await
    }

    /// Closes such a window; [`None`] if there is none with this number.
    ///
    /// # Errors
    ///
    /// When the ring buffer is no longer read.
    pub async fn close_window<O: Observer>(
        &mut self,
        number: u64,
        observer: &mut O,
    ) -> Result<Option<Window>> {
        let window = self.drain.close_window(number).await?;
        self.settle(observer).await?;
        Ok(window)
    }

    /// Acts on the events that have arrived, and waits for the examinations that they lead to.
    async fn settle<O: Observer>(&mut self, observer: &mut O) -> Result<()> {
        while let Some(events) = self.drain.waiting_events() {
            self.act_on(&events, observer)?;
        }
        self.finish_examinations(Instant::now() + SETTLE_LIMIT, observer)
            .await?;
        self.continue_walks().await;
        Ok(())
    }
}
