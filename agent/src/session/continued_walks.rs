//! Native stacks of samples that ended at code which was not known yet: their walks are continued before their window is
//! built.

use std::time::{Duration, Instant};

use agent_common::record::WantedTable;
use tokio::time::timeout_at;

use super::{Session, warn_on_error};

/// Most time that a window waits for the unwind tables of its stacks.
const LIMIT: Duration = Duration::from_millis(200);

impl Session {
    /// Has the walks of stacks continued whose code may be known now.
    pub(super) fn retry_stacks(&self) {
        if let Some(unfinished) = &self.unfinished {
            unfinished.retry();
        }
    }

    /// Starts to compile a table without which a walk cannot be continued.
    pub(super) fn request_table(&mut self, wanted: &WantedTable) {
        if let Some(tables) = &mut self.unwind_tables {
            tables.request(&self.examinations.executables, wanted);
        }
    }

    /// Continues the walks of the stacks that were sampled, as far as their tables are there within a moment. What fails
    /// is logged: the window has its samples all the same.
    pub(super) async fn continue_walks(&mut self) {
        let limit = (Instant::now() + LIMIT).into();
        // Without an answer in time the stacks are as they were sent.
        let _ = timeout_at(limit, self.continue_all()).await;
    }

    /// Continues until no stack waits for a table that is being made. Cancel safe.
    async fn continue_all(&mut self) {
        loop {
            let Some(unfinished) = &mut self.unfinished else {
                return;
            };
            let waiting = unfinished.flush().await;
            while let Some(unfinished) = &mut self.unfinished
                && let Some(wanted) = unfinished.waiting_wanted()
            {
                self.request_table(&wanted);
            }
            let Some(tables) = &mut self.unwind_tables else {
                return;
            };
            if waiting == 0 || !tables.is_loading() {
                return;
            }
            let done = tables.next().await;
            warn_on_error(tables.advance(&mut self.bpf, &self.examinations.executables, done));
        }
    }
}
