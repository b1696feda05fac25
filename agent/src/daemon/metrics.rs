//! The metrics of the agent of a host.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, UNIX_EPOCH},
};

use super::{
    reload::ReloadStatus,
    target_table::TargetTable,
    telemetry::{Metrics, Usage},
    window::Totals,
};
use crate::{
    binaries::executables::ExecutableCounts,
    bpf::Counters,
    export,
    session::{LeftOut, Session},
    symbolize::LookupTotals,
    targets::kubernetes,
    threads::{PassStatus, UnfinishedTotals},
    workers::WorkersStatus,
};

/// What the metrics describe.
pub(crate) struct State<'a> {
    pub(crate) usage: Usage,
    /// What the BPF programs have counted; [`None`] if that cannot be read.
    pub(crate) counters: Option<Counters>,
    /// Runs of the sampling program, and their nanoseconds.
    pub(crate) cost: Option<(u64, u64)>,
    /// CPUs that are sampled.
    pub(crate) cpus: usize,
    /// What the threads of the session are doing.
    pub(crate) threads: Threads<'a>,
    pub(crate) executables: ExecutableCounts,
    pub(crate) targets: &'a TargetTable,
    pub(crate) totals: &'a Totals,
    /// Samples per second and CPU, as configured.
    pub(crate) rate: u32,
    /// Time between two samples at present.
    pub(crate) period: Duration,
    pub(crate) pods: Vec<kubernetes::Status>,
    pub(crate) exporters: Vec<export::ExporterStatus>,
    pub(crate) reloads: &'a ReloadStatus,
}

impl State<'_> {
    /// The metrics, as Prometheus takes them.
    pub(crate) fn render(&self) -> String {
        let mut metrics = Metrics::default();
        metrics.usage(&self.usage);
        if let Some(counters) = &self.counters {
            metrics.bpf_counters(counters);
        }
        if let Some((runs, nanoseconds)) = self.cost {
            metrics.bpf_cost(runs, nanoseconds);
        }
        metrics.gauge(
            "profiling_agent_sampling_rate_hertz",
            "Present sampling rate per CPU",
            &[],
            (1e3 / self.period.as_secs_f64()).round() / 1e3,
        );
        metrics.gauge(
            "profiling_agent_configured_rate_hertz",
            "Sampling rate per CPU of the configuration",
            &[],
            self.rate.into(),
        );
        metrics.amount(
            "profiling_agent_online_cpus",
            "CPUs that are sampled",
            &[],
            self.cpus,
        );
        metrics.counter(
            "profiling_agent_cpu_hotplug_events",
            "Times that CPUs went online or offline while sampling",
            &[],
            self.totals.cpu_changes,
        );
        let (profiled, excluded) = self.targets.count();
        let help = "Processes in the target table";
        let name = "profiling_agent_processes";
        metrics.amount(name, help, &[("state", "profiled")], profiled);
        metrics.amount(name, help, &[("state", "excluded")], excluded);
        let unmatched = self.targets.unmatched();
        let help = "Conditions of the selection that have matched no process";
        let name = "profiling_agent_unmatched_conditions";
        metrics.amount(name, help, &[("list", "include")], unmatched.include.len());
        metrics.amount(name, help, &[("list", "exclude")], unmatched.exclude.len());
        let (stacks, code_objects) = self.threads.cached;
        for (cache, entries) in [("stacks", stacks), ("code_objects", code_objects)] {
            metrics.amount(
                "profiling_agent_cache_entries",
                "Entries of the caches of what the BPF programs have sent",
                &[("cache", cache)],
                entries,
            );
        }
        self.threads.add(&mut metrics);
        add_executables(&mut metrics, &self.executables);
        add_totals(&mut metrics, self.totals);
        for status in &self.pods {
            metrics.pods(status);
        }
        for status in &self.exporters {
            metrics.exporter(status);
        }
        add_reloads(&mut metrics, self.reloads);
        metrics.text()
    }
}

/// Adds what reloads of the configuration have done, under the names that Prometheus has for it.
fn add_reloads(metrics: &mut Metrics, reloads: &ReloadStatus) {
    metrics.gauge(
        "profiling_agent_config_last_reload_successful",
        "Whether the last configuration that was to be loaded is applied, but for what needs a restart",
        &[],
        f64::from(u8::from(reloads.is_applied)),
    );
    let applied_at = reloads.applied_at.duration_since(UNIX_EPOCH);
    metrics.gauge(
        "profiling_agent_config_last_reload_success_timestamp_seconds",
        "When all of a configuration was applied last, in seconds since 1970",
        &[],
        applied_at.unwrap_or_default().as_secs_f64(),
    );
    metrics.amount(
        "profiling_agent_config_keys_waiting",
        "Keys of the configuration that have changed and take effect when the agent is started again",
        &[],
        reloads.waiting.len(),
    );
}

/// What the threads of the session are doing.
pub(crate) struct Threads<'a> {
    /// Cached stacks and cached code objects.
    pub(crate) cached: (usize, usize),
    /// The longest time that a sample was in the ring buffer.
    pub(crate) longest_drain_delay: Duration,
    /// What found no room in the BPF maps.
    pub(crate) left_out: LeftOut,
    /// Records and events that were read and dropped because too much was waiting.
    pub(crate) dropped: (u64, u64),
    pub(crate) lookups: LookupTotals,
    /// Native stacks that were walked on.
    pub(crate) unfinished: UnfinishedTotals,
    pub(crate) workers: WorkersStatus,
    /// [`None`] where there are no passes over the threads.
    pub(crate) passes: Option<&'a PassStatus>,
}

impl<'a> Threads<'a> {
    pub(crate) fn of(session: &'a Session) -> Self {
        let drain = session.drain_status();
        let builder = session.profiles.status();
        let delay = drain.longest_delay_ns.load(Ordering::Relaxed);
        Self {
            cached: builder.cached(),
            longest_drain_delay: Duration::from_nanos(delay),
            left_out: session.left_out(),
            dropped: (
                builder.lost_records.load(Ordering::Relaxed),
                drain.lost_events.load(Ordering::Relaxed),
            ),
            lookups: builder.lookups(),
            unfinished: session.unfinished_totals(),
            workers: session.workers_status(),
            passes: session.pass_status(),
        }
    }

    fn add(&self, metrics: &mut Metrics) {
        add_lookups(metrics, &self.lookups);
        if let Some(passes) = &self.passes {
            add_passes(metrics, passes);
        }
        metrics.gauge(
            "profiling_agent_longest_drain_delay_seconds",
            "Longest time that a sample was in the ring buffer",
            &[],
            self.longest_drain_delay.as_secs_f64(),
        );
        for (kind, count) in [("record", self.dropped.0), ("event", self.dropped.1)] {
            metrics.counter(
                "profiling_agent_dropped_records",
                "What was read from the ring buffer and dropped because too much was waiting",
                &[("kind", kind)],
                count,
            );
        }
        for (map, count) in [
            ("mappings", self.left_out.mappings),
            ("layouts", self.left_out.layouts),
            ("tables", self.left_out.tables),
            ("rules", self.left_out.rules),
        ] {
            metrics.counter(
                "profiling_agent_left_out",
                "Times that something of a process found no room in a BPF map",
                &[("map", map)],
                count,
            );
        }
        let unfinished = &self.unfinished;
        for (result, count) in [
            ("finished", unfinished.finished),
            ("truncated", unfinished.truncated),
            ("given_up", unfinished.given_up),
        ] {
            metrics.counter(
                "profiling_agent_native_stacks_continued",
                "Native stacks with a copy of their thread's stack: walked to their end, or to that of the copy, or given \
                 up because their code did not become known in time",
                &[("result", result)],
                count,
            );
        }
        for lane in &self.workers.lanes {
            let label = [("lane", lane.lane.name())];
            metrics.counter(
                "profiling_agent_jobs",
                "Jobs of the worker threads that have ended",
                &label,
                lane.done,
            );
            metrics.counter(
                "profiling_agent_jobs_timed_out",
                "Jobs that did not end in their time and were given up",
                &label,
                lane.timed_out,
            );
            metrics.amount(
                "profiling_agent_jobs_waiting",
                "Jobs that wait for a worker thread",
                &label,
                lane.waiting + lane.running,
            );
            metrics.amount(
                "profiling_agent_threads_given_up",
                "Worker threads whose job does not end",
                &label,
                lane.abandoned,
            );
        }
        metrics.counter(
            "profiling_agent_quarantines",
            "Files and processes that were left out because they took too long to read",
            &[],
            self.workers.quarantines,
        );
        metrics.amount(
            "profiling_agent_quarantined",
            "Files and processes that are left out now",
            &[],
            self.workers.quarantined.len(),
        );
    }
}

/// Adds what the passes over the threads are doing.
fn add_passes(metrics: &mut Metrics, passes: &PassStatus) {
    let counters: [(_, _, &AtomicU64); 9] = [
        (
            "profiling_agent_pass_threads_given_up",
            "Threads that made passes until a process held them up",
            &passes.given_up,
        ),
        (
            "profiling_agent_passes",
            "Passes over the threads",
            &passes.passes,
        ),
        (
            "profiling_agent_passes_missed",
            "Periods without a pass because the one before took too long",
            &passes.missed,
        ),
        (
            "profiling_agent_thread_visits",
            "Threads visited by passes",
            &passes.visits,
        ),
        (
            "profiling_agent_stack_reads",
            "Stacks of threads read by passes: of those that ran since the last pass, or of which something was missing",
            &passes.reads,
        ),
        (
            "profiling_agent_unproved_stacks",
            "Stacks of threads that ran while they were read, which were left out",
            &passes.unproved,
        ),
        (
            "profiling_agent_unrecorded_lock_waits",
            "Waits for locks of which it was not recorded who ended them: there were too many at a time",
            &passes.unrecorded,
        ),
        (
            "profiling_agent_task_lists_cut",
            "Times that a process had more tasks of asyncio than a pass could find in time: the others are missing",
            &passes.cut_tasks,
        ),
        (
            "profiling_agent_sampled_waits_dropped",
            "Records of sampled waits dropped because no pass has looked at them in time",
            &passes.dropped_waits,
        ),
    ];
    for (name, help, count) in counters {
        metrics.counter(name, help, &[], count.load(Ordering::Relaxed));
    }
    let time = |nanoseconds: &AtomicU64| Duration::from_nanos(nanoseconds.load(Ordering::Relaxed));
    metrics.gauge(
        "profiling_agent_pass_period_seconds",
        "Present time between two passes",
        &[],
        time(&passes.period_ns).as_secs_f64(),
    );
    metrics.cpu_time(
        "profiling_agent_pass_cpu_seconds",
        "Processor time of the passes",
        time(&passes.cpu_ns),
    );
}

/// Adds what there is of the executables that processes map.
fn add_executables(metrics: &mut Metrics, counts: &ExecutableCounts) {
    for (state, count) in [("open", counts.open), ("closed", counts.closed)] {
        metrics.amount(
            "profiling_agent_executables",
            "Executables that processes map, or have mapped a while ago",
            &[("state", state)],
            count,
        );
    }
    metrics.counter(
        "profiling_agent_executables_forgotten",
        "Executables forgotten after no process mapped them for a while",
        &[],
        counts.forgotten,
    );
    metrics.counter(
        "profiling_agent_executables_closed_early",
        "Executables that no process maps, closed before their time to open others",
        &[],
        counts.closed_early,
    );
    metrics.counter(
        "profiling_agent_executables_not_opened",
        "Executables not opened because too many that processes map are open",
        &[],
        counts.not_opened,
    );
}

/// Adds the look-ups of addresses of native code.
fn add_lookups(metrics: &mut Metrics, totals: &LookupTotals) {
    let complete = totals.addresses.saturating_sub(totals.incomplete);
    for (result, count) in [("complete", complete), ("name", totals.incomplete)] {
        metrics.counter(
            "profiling_agent_symbol_lookups",
            "Addresses that were looked up in files: completely, or only the name for want of CPU time",
            &[("result", result)],
            count,
        );
    }
    metrics.cpu_time(
        "profiling_agent_symbol_lookup_seconds",
        "CPU time of looking up addresses in files",
        totals.cpu,
    );
}

/// Adds the counts over all windows.
fn add_totals(metrics: &mut Metrics, totals: &Totals) {
    metrics.counter(
        "profiling_agent_memory_limit_reached",
        "Windows at whose end memory use was above max_memory",
        &[],
        totals.memory_limit_reached,
    );
    metrics.counter(
        "profiling_agent_merged_series",
        "Series whose samples are in the series of all others because a window had too many",
        &[],
        totals.merged_series,
    );
    metrics.counter(
        "profiling_agent_windows",
        "Windows completed",
        &[],
        totals.windows,
    );
    metrics.counter(
        "profiling_agent_profiles",
        "Profiles created",
        &[],
        totals.profiles,
    );
    metrics.counter(
        "profiling_agent_profile_bytes",
        "Size of the profiles as gzipped pprof",
        &[],
        totals.pprof_bytes,
    );
    metrics.counter(
        "profiling_agent_profile_samples",
        "Samples in the profiles",
        &[],
        totals.samples,
    );
    for (event, samples) in &totals.event_samples {
        metrics.counter(
            "profiling_agent_event_samples",
            "Samples in the profiles, by event",
            &[("event", event)],
            *samples,
        );
    }
    metrics.counter(
        "profiling_agent_window_lost_samples",
        "Samples dropped because a window was full",
        &[],
        totals.lost_samples,
    );
    metrics.counter(
        "profiling_agent_unselected_samples",
        "Samples dropped because their processes are not selected, or could not be examined before they ended",
        &[],
        totals.unselected_samples,
    );
    for (reason, count) in &totals.losses {
        metrics.counter(
            "profiling_agent_incomplete_samples",
            "Samples whose stack is not complete, by reason",
            &[("reason", reason)],
            *count,
        );
    }
    metrics.counter(
        "profiling_agent_native_stacks_complete",
        "Native stacks unwound to the entry point of their thread",
        &[],
        totals.complete_stacks,
    );
    for (executable, count) in &totals.truncated_stacks {
        metrics.counter(
            "profiling_agent_native_stacks_truncated",
            "Native stacks truncated, by the executable in which unwinding stopped",
            &[("executable", executable)],
            *count,
        );
    }
}
