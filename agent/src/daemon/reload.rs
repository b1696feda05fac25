//! Reloads of the configuration: what they change while the agent runs, and what waits for its next start.

use std::time::{Duration, SystemTime};

use crate::config::Config;

/// What reloads have done.
#[derive(Debug)]
pub(crate) struct ReloadStatus {
    /// Whether the last one applied all that can change while the agent runs.
    pub(crate) is_applied: bool,
    /// When the last one did that, or the agent started.
    pub(crate) applied_at: SystemTime,
    /// Keys whose values wait for the next start of the agent, as a sentence names them.
    pub(crate) waiting: Vec<&'static str>,
}

impl ReloadStatus {
    /// That of an agent that has just started.
    pub(super) fn started() -> Self {
        Self {
            is_applied: true,
            applied_at: SystemTime::now(),
            waiting: Vec::new(),
        }
    }

    /// Notes the end of a reload.
    pub(super) fn end(&mut self, is_applied: bool) {
        self.is_applied = is_applied;
        if is_applied {
            self.applied_at = SystemTime::now();
        }
    }
}

/// Leaves in `next` what `running` has where a change needs another start of the agent; returns the keys that have
/// other values there, as a sentence names them. There is a pass over the threads every `passes`, which stays so.
pub(super) fn keep_started(
    running: &Config,
    passes: Duration,
    next: &mut Config,
) -> Vec<&'static str> {
    let mut keys = Vec::new();
    let mut note = |key, differs| {
        if differs {
            keys.push(key);
        }
    };
    note("`events`", keep(&running.kinds, &mut next.kinds));
    if next.kinds.iter().any(|kind| kind.is_of_passes()) {
        let key = match next.wait_rate {
            Some(_) => "`wait_rate`",
            None => "`rate`, of the events of waiting,",
        };
        note(key, next.periods().passes != passes);
        let labels = keep(&running.thread_labels, &mut next.thread_labels);
        note("`thread_labels`", labels);
    }
    note("`native`", keep(&running.native, &mut next.native));
    note(
        "`all_exceptions`",
        keep(&running.exceptions, &mut next.exceptions),
    );
    note(
        "`trace_switches`",
        keep(&running.trace_switches, &mut next.trace_switches),
    );
    let (http, kept) = (&mut next.http_server, &running.http_server);
    note("`listen`", keep(&kept.address, &mut http.address));
    note("`socket`", keep(&kept.socket, &mut http.socket));
    note("`http_hosts`", keep(&kept.hosts, &mut http.hosts));
    note(
        "`http_token_file`",
        keep(&kept.token_file, &mut http.token_file),
    );
    note(
        "`log_format`",
        keep(&running.log.format, &mut next.log.format),
    );
    keys
}

/// Keeps a value; returns whether the next one is another.
fn keep<T: Clone + PartialEq>(running: &T, next: &mut T) -> bool {
    let differs = running != next;
    next.clone_from(running);
    differs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::fixtures::config;

    #[test]
    fn what_needs_a_restart_is_said_at_each_reload_until_there_is_one() {
        let running = config("events: cpu,wall\nrate: 20");
        let written = "events: cpu,wall,gil\nnative: false\nwait_rate: 5\nlisten: 'off'\nlog_format: json\nrate: 50";
        let keys = [
            "`events`",
            "`wait_rate`",
            "`native`",
            "`listen`",
            "`log_format`",
        ];
        let passes = running.periods().passes;
        let mut applied = running.clone();
        for _ in 0..2 {
            let mut next = config(written);
            assert_eq!(keep_started(&applied, passes, &mut next), keys);
            assert_eq!(next.kinds, running.kinds);
            assert_eq!((next.native, next.rate), (true, 50));
            assert_eq!(next.http_server, running.http_server);
            applied = next;
        }
        let mut back = config("events: cpu,wall\nrate: 20");
        assert!(keep_started(&applied, passes, &mut back).is_empty());
        let mut faster = config("events: cpu,wall\nrate: 50\nthread_labels: true");
        let keys = ["`rate`, of the events of waiting,", "`thread_labels`"];
        assert_eq!(keep_started(&running, passes, &mut faster), keys);
        assert_eq!((faster.rate, faster.thread_labels), (50, false));
    }

    #[test]
    fn what_changes_while_the_agent_runs_is_not_among_it() {
        let running = config("");
        let mut next = config(
            "rate: 97\nwait_rate: 5\nwindow: 30s\nidle: true\nmax_cpu: 9\ninclude: [{command: shop}]\n\
             log_level: debug\nexporters: {}\nlabels: {a: b}\nthread_labels: true",
        );
        let keys = keep_started(&running, running.periods().passes, &mut next);
        // There are no passes of which `wait_rate` could be the rate.
        assert!(keys.is_empty(), "{keys:?}");
    }

    #[test]
    fn a_reload_that_is_refused_leaves_the_time_of_the_last_one() {
        let mut status = ReloadStatus::started();
        let started_at = status.applied_at;
        status.end(false);
        assert_eq!((status.is_applied, status.applied_at), (false, started_at));
        status.end(true);
        assert!(status.is_applied && status.applied_at >= started_at);
    }
}
