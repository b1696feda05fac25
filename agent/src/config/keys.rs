//! The keys of a configuration.

use std::{collections::BTreeMap, path::PathBuf};

use serde::Deserialize;
use serde_yaml_ng::Value;

use super::{
    LogFormat,
    exporters::Exporter,
    kubernetes,
    quantities::{Size, Time},
};
use crate::targets::labels::relabel::Rules;

/// A key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name in the file.
    pub name: &'static str,
    /// What it is for, in a sentence.
    pub about: &'static str,
}

impl Key {
    /// Its flag, without the dashes in front.
    #[must_use]
    pub fn flag(&self) -> String {
        self.name.replace('_', "-")
    }

    /// Its variable of the environment.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("AGENT_{}", self.name.to_uppercase())
    }
}

/// Declares the keys once: their names, types and what they are for.
macro_rules! keys {
    ($($(#[doc = $about:literal])+ $name:ident: $type:ty,)+) => {
        /// A configuration as it is written; what is not there has its default.
        #[derive(Clone, Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub(super) struct Written {
            $($(#[doc = $about])+ pub(super) $name: Option<$type>,)+
        }

        /// All keys.
        pub const KEYS: &[Key] = &[
            $(Key { name: stringify!($name), about: concat!($($about),+) },)+
        ];

        impl Written {
            /// This, and where it says nothing what `other` says.
            pub(super) fn or(self, other: Self) -> Self {
                Self { $($name: self.$name.or(other.$name),)+ }
            }
        }
    };
}

keys! {
    /// Samples per second of CPU time on each processor [default: 19]
    rate: u32,
    /// Time that one profile covers [default: 15s]
    window: Time,
    /// Most CPU time that the agent uses itself, in percent of one processor: beyond it, it samples
    /// more seldom [default: 5]
    max_cpu: f64,
    /// Most memory that the agent uses itself: beyond it, it forgets what it can find out again
    /// [default: 256MiB]
    max_memory: Size,
    /// Whether stacks have native and kernel frames [default: true]
    native: bool,
    /// What is profiled: a list of conditions on command, user, cgroup, unit, container, pod,
    /// namespace, pid [default: everything]
    include: Value,
    /// What is not profiled: likewise [default: nothing]
    exclude: Value,
    /// Labels that all profiles have
    labels: BTreeMap<String, String>,
    /// Whether each process has its own profiles, with its id as a label [default: false]
    per_process: bool,
    /// Whether samples have their thread as a label, of which Pyroscope makes a series each
    /// [default: false]
    threads: bool,
    /// Rules that change labels, as Prometheus has them
    relabel_configs: Rules,
    /// Whether relabeling rules see `__meta_process_cmdline`, which may hold secrets [default:
    /// false]
    command_lines: bool,
    /// What Kubernetes calls this machine [default: what the variable `NODE_NAME` says]
    node: String,
    /// Who is asked what pods are called: from (api-server, kubelet, off) and where that is, and
    /// the runtime's socket [default: in a cluster the API server; the runtime where it listens]
    kubernetes: kubernetes::Written,
    /// Where the host's root is for an agent in a container [default: /]
    host_root: PathBuf,
    /// Where profiles go: names, and for each a type (file, pyroscope, parca, otlp) and what
    /// that needs [default: a folder]
    exporters: BTreeMap<String, Exporter>,
    /// Address of metrics, health and profiles, or `off` [default: 127.0.0.1:7070]
    listen: String,
    /// How much is told: error, warn, info, debug, trace [default: info]
    log_level: String,
    /// How it is told: text or json [default: text]
    log_format: LogFormat,
    /// How long the last profiles may take to be delivered at the end [default: 10s]
    shutdown_timeout: Time,
}
