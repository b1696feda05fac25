//! What is logged of failed deliveries: of each kind the first one, and later ones after longer and longer pauses, with the
//! number of those between.
//!
//! Invariant: failures of one kind have at most a line a minute, whatever is delivered between them.

use std::{collections::HashMap, mem};

use tracing::{info, warn};

use super::{
    batch::Payload,
    failure::{Decision, DeliveryError},
    seldom::Seldom,
};
use crate::http_client::HttpErrorKind;

/// The failures of an exporter that were logged.
#[derive(Debug)]
pub(super) struct FailureLog {
    exporter: String,
    /// At most one of each kind.
    kinds: HashMap<Option<HttpErrorKind>, Seldom>,
    /// Whether all deliveries fail.
    is_failing: bool,
    /// Whether a failure was logged since the last delivery, so that it is worth a line when they work again.
    has_logged: bool,
}

impl FailureLog {
    pub(super) fn new(exporter: String) -> Self {
        Self {
            exporter,
            kinds: HashMap::new(),
            is_failing: false,
            has_logged: false,
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
        let others = self.kinds.entry(kind).or_default().others();
        self.has_logged |= others.is_some();
        others
    }

    /// All deliveries fail.
    pub(super) fn all_fail(&mut self) {
        self.is_failing = true;
    }

    /// A delivery has succeeded.
    pub(super) fn delivered(&mut self) {
        let has_logged = mem::take(&mut self.has_logged);
        if !mem::take(&mut self.is_failing) {
            return;
        }
        // The next failure is another one.
        for logged in self.kinds.values_mut() {
            logged.is_over();
        }
        if has_logged {
            info!(exporter = self.exporter, "delivery works again");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{super::seldom::PAUSE, *};

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
        // What fails after all have worked again is logged sooner.
        log.all_fail();
        log.delivered();
        assert_eq!(log.others(forbidden), Some(2));
    }

    /// As of a collector that throttles every other delivery.
    #[tokio::test(start_paused = true)]
    async fn deliveries_between_failures_make_no_more_lines() {
        let mut log = FailureLog::new("test".to_owned());
        let mut lines = 0;
        for _ in 0..600 {
            lines += u32::from(log.others(Some(HttpErrorKind::Throttled)).is_some());
            log.all_fail();
            log.delivered();
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert_eq!(lines, 10);
    }
}
