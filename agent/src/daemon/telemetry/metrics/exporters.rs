//! Metrics of exporters.

use super::Metrics;
use crate::export::ExporterStatus;

impl Metrics {
    /// Adds the counters of an exporter.
    pub fn exporter(&mut self, status: &ExporterStatus) {
        let exporter = ("exporter", &*status.name);
        let counts = &status.counts;
        let mut counter = |name, help, value| self.counter(name, help, &[exporter], value);
        counter(
            "profiling_agent_export_accepted",
            "Profiles handed to the exporter",
            counts.accepted,
        );
        counter(
            "profiling_agent_export_delivered",
            "Profiles accepted by the destination",
            counts.delivered,
        );
        counter(
            "profiling_agent_export_delivered_bytes",
            "Bytes of profiles accepted by the destination, as sent",
            counts.delivered_bytes,
        );
        counter(
            "profiling_agent_export_attempts",
            "Attempts to send a profile",
            counts.attempts,
        );
        counter(
            "profiling_agent_export_recovered",
            "Profiles of an earlier run of the agent, found in the spool",
            counts.recovered,
        );
        counter(
            "profiling_agent_export_partly_rejected",
            "Delivered profiles of which the destination rejected a part",
            counts.partly_rejected,
        );
        counter(
            "profiling_agent_spool_failures",
            "Failed writes to the spool and reads from it",
            counts.spool_failures,
        );
        for (reason, count) in counts.dropped.by_reason() {
            let labels = [exporter, ("reason", reason)];
            let help = "Profiles dropped, by reason";
            self.counter("profiling_agent_export_dropped", help, &labels, count);
        }
        for (reason, count) in counts.failures.by_reason() {
            let labels = [exporter, ("reason", reason)];
            let help = "Failed attempts, by reason";
            self.counter("profiling_agent_export_failures", help, &labels, count);
        }
        let labels = [exporter, ("reason", "disk_full")];
        let help = "Delivered profiles removed by the exporter, by reason";
        let removed = counts.removed_disk_full;
        self.counter("profiling_agent_export_removed", help, &labels, removed);
        let waiting = counts.queued;
        for (queue, count) in [("memory", waiting.memory), ("spool", waiting.spool)] {
            let labels = [exporter, ("queue", queue)];
            let help = "Profiles waiting to be sent";
            self.amount("profiling_agent_export_queue_length", help, &labels, count);
        }
        let help = "Disk space that the spool uses";
        #[expect(clippy::cast_precision_loss, reason = "petabytes are exact")]
        let bytes = waiting.spool_bytes as f64;
        self.gauge("profiling_agent_spool_bytes", help, &[exporter], bytes);
    }
}
