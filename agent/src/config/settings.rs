//! A validated configuration.

use std::{collections::BTreeMap, num::NonZeroU32, path::PathBuf, time::Duration};

use super::{http_server::HttpServer, log::Log};
use crate::{
    aggregate::Filter,
    export,
    profile::{Kind, Periods, RecordedExceptions},
    targets::{
        kubernetes::Config as Kubernetes,
        labels::{Selector, relabel::Rules},
    },
};

/// A validated configuration of the agent of a host.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key")]
pub struct Config {
    /// Sentences about what was not understood, and is no error.
    pub warnings: Vec<String>,
    /// What to sample; not empty, each once.
    pub kinds: Vec<&'static Kind>,
    /// Samples per second of CPU time, in hertz.
    pub rate: u32,
    /// Samples per second of the time of each thread, in hertz, if that is another rate.
    pub wait_rate: Option<NonZeroU32>,
    /// CPU time that the agent may use, as a part of one CPU.
    pub max_cpu: f64,
    /// Memory that the agent may use, in bytes.
    pub max_memory: u64,
    /// Time that one profile covers.
    pub window: Duration,
    /// Whether to walk native and kernel frames too.
    pub native: bool,
    /// Whether profiles have threads that wait for work.
    pub idle: bool,
    /// Whether context switches are traced.
    pub trace_switches: bool,
    /// Which exceptions are recorded.
    pub exceptions: RecordedExceptions,
    /// Whether samples have their thread as a label.
    pub thread_labels: bool,
    /// Which processes to profile.
    pub selector: Selector,
    /// How profiles are labelled.
    pub labels: Labels,
    /// Where metadata of pods comes from.
    pub kubernetes: Kubernetes,
    /// Destinations of profiles.
    pub exporters: Vec<export::ExporterConfig>,
    /// Where metrics, health and profiles on demand are served.
    pub http_server: HttpServer,
    /// What is logged, and how.
    pub log: Log,
    /// Time to send the last profiles when the agent ends.
    pub shutdown_timeout: Duration,
}

impl Config {
    /// Time between two samples.
    #[must_use]
    pub fn periods(&self) -> Periods {
        Periods::new(self.rate, self.wait_rate)
    }

    /// Which samples profiles have.
    #[must_use]
    pub fn filter(&self) -> Filter {
        Filter {
            idle: self.idle,
            ..Filter::default()
        }
    }

    /// How profiles are encoded for the exporters.
    #[must_use]
    pub fn batch_options(&self) -> export::BatchOptions {
        let destinations = self.exporters.iter().map(|exporter| &exporter.destination);
        export::BatchOptions {
            thread_labels: self.thread_labels,
            pprof_names: destinations
                .filter_map(export::DestinationConfig::pprof_names)
                .collect(),
        }
    }
}

/// How profiles are labelled.
#[derive(Clone, Debug, Default)]
pub struct Labels {
    /// Labels of all profiles.
    pub fixed: BTreeMap<String, String>,
    /// Whether each process has its own series.
    pub per_process: bool,
    /// Relabeling rules.
    pub rules: Rules,
    /// Whether rules see command lines, which may hold secrets.
    pub command_lines: bool,
    /// Whether `OTEL_…` variables of processes are labels.
    pub trust_environment: bool,
    /// The Kubernetes node.
    pub node: Option<String>,
    /// Root of the host's files, as the agent sees it.
    pub host_root: PathBuf,
}
