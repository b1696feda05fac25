//! What is logged of failed deliveries: of each kind the first one, and later ones after longer and longer pauses, with the
//! number of those between.

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;
use tracing::{info, warn};

use super::{
    batch::Payload,
    failure::{Decision, DeliveryError},
};
use crate::http_client::HttpErrorKind;

/// Least time between the first two lines about failures of the same kind, which doubles, and the longest.
const PAUSE: Duration = Duration::from_secs(60);
const LONGEST_PAUSE: Duration = Duration::from_secs(60 * 60);

/// The failures of an exporter that were logged.
#[derive(Debug)]
pub(super) struct FailureLog {
    exporter: String,
    /// At most one of each kind.
    kinds: HashMap<Option<HttpErrorKind>, Logged>,
    /// Whether deliveries fail, so that it is worth a line when they work again.
    is_failing: bool,
}

#[derive(Debug)]
struct Logged {
    at: Instant,
    /// Time in which no other one is.
    pause: Duration,
    /// Failures since that were not.
    others: u64,
}

impl FailureLog {
    pub(super) fn new(exporter: String) -> Self {
        Self {
            exporter,
            kinds: HashMap::new(),
            is_failing: false,
        }
    }

    /// Logs a failed delivery, if one of its kind was not logged lately.
    pub(super) fn failed(&mut self, failure: &DeliveryError, payload: &Payload) {
        let Some(others) = self.others(failure.kind()) else {
            return;
        };
        let (exporter, profile) = (&self.exporter, &payload.name);
        match failure.decision() {
            Decision::Drop(_) => warn!(exporter, profile, others, "profile dropped: {failure}"),
            Decision::Retry | Decision::RetryWithLimit => {
                warn!(
                    exporter,
                    profile, others, "delivery failed and is retried: {failure}"
                );
            }
        }
    }

    /// How many failures of a kind were not logged before this one; [`None`] if it is not to be either.
    fn others(&mut self, kind: Option<HttpErrorKind>) -> Option<u64> {
        let now = Instant::now();
        let mut logged = Logged {
            at: now,
            pause: PAUSE,
            others: 0,
        };
        let mut others = 0;
        if let Some(known) = self.kinds.get_mut(&kind) {
            if now - known.at < known.pause {
                known.others += 1;
                return None;
            }
            logged.pause = (2 * known.pause).min(LONGEST_PAUSE);
            others = known.others;
        }
        self.kinds.insert(kind, logged);
        Some(others)
    }

    /// All deliveries fail.
    pub(super) fn all_fail(&mut self) {
        self.is_failing = true;
    }

    /// A delivery has succeeded.
    pub(super) fn delivered(&mut self) {
        if std::mem::take(&mut self.is_failing) {
            // The next failure is another one.
            self.kinds.clear();
            info!(exporter = self.exporter, "delivery works again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_kind_is_logged_seldom_with_the_number_of_the_others() {
        let mut log = FailureLog::new("test".to_owned());
        let forbidden = Some(HttpErrorKind::Forbidden);
        assert_eq!(log.others(forbidden), Some(0));
        for _ in 0..7 {
            assert_eq!(log.others(forbidden), None);
        }
        assert_eq!(log.others(None), Some(0));
        tokio::time::advance(PAUSE).await;
        assert_eq!(log.others(forbidden), Some(7));
        tokio::time::advance(PAUSE).await;
        assert_eq!(log.others(forbidden), None);
        log.delivered();
        assert_eq!(log.others(forbidden), None);
        log.all_fail();
        log.delivered();
        assert_eq!(log.others(forbidden), Some(0));
    }
}
