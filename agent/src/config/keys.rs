//! The keys of a configuration.

use std::{collections::BTreeMap, path::PathBuf};

use serde::Deserialize;
use serde_yaml_ng::Value;

use super::{
    exporters::Exporter,
    kubernetes,
    log::LogFormat,
    quantities::{Size, Time},
    words::Words,
};
use crate::targets::labels::relabel::Rules;

/// What the environment variables of keys begin with.
pub const VARIABLE_PREFIX: &str = "AGENT_";

/// A key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name in the file.
    pub name: &'static str,
    /// Heading under which the help lists it.
    pub group: &'static str,
    /// How it is written as a flag.
    pub kind: KeyKind,
    /// What it sets; of a switch what its flag does that differs from the default.
    pub about: &'static str,
}

/// How a key is written as a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// With a value of this name: `--rate <HZ>`.
    Value(&'static str),
    /// Without a value: `--per-process`, `--no-per-process`.
    Switch {
        /// Its value without a flag.
        default: bool,
    },
}

impl Key {
    /// Its flag, without the leading dashes.
    #[must_use]
    pub fn flag(&self) -> String {
        self.name.replace('_', "-")
    }

    /// Its environment variable.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("{VARIABLE_PREFIX}{}", self.name.to_uppercase())
    }
}

/// Off by default.
const OFF: KeyKind = KeyKind::Switch { default: false };

/// On by default.
const ON: KeyKind = KeyKind::Switch { default: true };

/// Declares the keys once: their groups, names, types, flags and descriptions.
macro_rules! keys {
    ($($group:literal: { $($(#[doc = $about:literal])+ $name:ident: $type:ty = $kind:expr,)+ })+) => {
        /// A configuration as it is written; a key that is left out has its default.
        #[derive(Clone, Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub(super) struct Written {
            $($($(#[doc = $about])+ pub(super) $name: Option<$type>,)+)+
        }

        /// All keys.
        pub const KEYS: &[Key] = &[
            $($(Key {
                name: stringify!($name),
                group: $group,
                kind: $kind,
                about: concat!($($about),+),
            },)+)+
        ];

        impl Written {
            /// The keys of `self`, and those of `other` that `self` leaves out.
            pub(super) fn or(self, other: Self) -> Self {
                Self { $($($name: self.$name.or(other.$name),)+)+ }
            }
        }
    };
}

keys! {
    "Sampling": {
        /// What to sample: events of `agent --event`, as in cpu,wall [default: cpu]
        events: Words = KeyKind::Value("LIST"),
        /// Samples per second of CPU time on each CPU [default: 19]
        rate: u32 = KeyKind::Value("HZ"),
        /// Samples per second of the time of each thread, of the events of waiting [default: rate]
        wait_rate: u32 = KeyKind::Value("HZ"),
        /// Time that one profile covers [default: 15s]
        window: Time = KeyKind::Value("TIME"),
        /// Python frames only, no native and kernel frames
        native: bool = ON,
        /// Threads that wait for work too, below the root [idle]; of wall, off-cpu and lock
        idle: bool = OFF,
        /// Exceptions too by which iterators, generators and tasks end; of exceptions
        all_exceptions: bool = OFF,
        /// Trace context switches too, so that waits of any length are exact; of the events of waiting
        trace_switches: bool = OFF,
        /// CPU time for sampling, and as much for other work, in percent of one CPU; above it the
        /// sampling rate is lowered, and other work waits [default: 5]
        max_cpu: f64 = KeyKind::Value("PERCENT"),
        /// Memory that the agent may use; above it caches are evicted [default: 256MiB]
        max_memory: Size = KeyKind::Value("BYTES"),
    }
    "Targets": {
        /// Processes to profile: a list of conditions on command, user, cgroup, unit, container,
        /// pod, namespace, pid [default: all]
        include: Value = KeyKind::Value("LIST"),
        /// Processes not to profile: a list of the same conditions [default: none]
        exclude: Value = KeyKind::Value("LIST"),
    }
    "Labels": {
        /// Labels of all profiles
        labels: BTreeMap<String, String> = KeyKind::Value("MAP"),
        /// A series for each process, with its id as a label
        per_process: bool = OFF,
        /// The thread as a label of each sample; in Pyroscope each thread is then a series
        thread_labels: bool = OFF,
        /// Relabeling rules, as in Prometheus
        relabel_configs: Rules = KeyKind::Value("LIST"),
        /// Do not use `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` of processes, which can claim
        /// to be any service
        trust_environment: bool = ON,
        /// The label `__meta_process_cmdline` for relabeling rules; command lines may hold secrets
        command_lines: bool = OFF,
    }
    "Kubernetes and containers": {
        /// Name of this node [default: `NODE_NAME`]
        node: String = KeyKind::Value("NAME"),
        /// Where metadata of pods comes from: from (api-server, kubelet, off), url, runtime …
        /// [default: in a cluster the API server, else the runtime's socket]
        kubernetes: kubernetes::Written = KeyKind::Value("MAP"),
        /// Root of the host's files for an agent in a container [default: /]
        host_root: PathBuf = KeyKind::Value("DIR"),
    }
    "Export": {
        /// Exporters by name, each with a type (file, pyroscope, parca, otlp) and its options
        /// [default: a folder]
        exporters: BTreeMap<String, Exporter> = KeyKind::Value("MAP"),
        /// Time to send the last profiles when the agent ends [default: 10s]
        shutdown_timeout: Time = KeyKind::Value("TIME"),
    }
    "HTTP server and logs": {
        /// Address of metrics and health, or off [default: 127.0.0.1:7147]
        listen: String = KeyKind::Value("ADDRESS"),
        /// Unix socket of profiles, metrics and health, or off [default: /run/agent/agent.sock]
        socket: PathBuf = KeyKind::Value("PATH"),
        /// Names of this server in requests to `listen`; addresses and localhost are known
        http_hosts: Words = KeyKind::Value("LIST"),
        /// File of the token with which profiles are served at `listen` too [default: none are]
        http_token_file: PathBuf = KeyKind::Value("FILE"),
        /// error, warn, info, debug or trace; of the agent's own targets [default: info]
        log_level: String = KeyKind::Value("LEVEL"),
        /// text or json [default: text]
        log_format: LogFormat = KeyKind::Value("FORMAT"),
    }
}
