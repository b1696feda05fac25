//! Reads a configuration from its sources and validates it.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read as _},
    num::NonZeroU32,
    path::PathBuf,
    time::Duration,
};

use serde::Deserialize as _;
use serde_yaml_ng::{Mapping, Value};

use super::{
    exporters::{self, Invalid},
    http_server::HttpServer,
    keys::{KEYS, Written},
    kubernetes::Cluster,
    log::Log,
    nearest::nearest,
    settings::{Config, Labels},
    variables,
    words::Words,
};
use crate::{
    profile::{CPU, Kind, RecordedExceptions},
    targets::labels::Selector,
};

/// Most bytes of a file.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Samples per second of CPU time: a prime, so that no periodic work runs in lockstep with it.
const RATE: u32 = 19;

/// Highest rate, in hertz: above it samples cost more than they are worth.
const MAX_RATE: u32 = 1_000;

/// CPU time that the agent may use, in percent of one CPU.
const MAX_CPU_PERCENT: f64 = 5.0;

/// Memory that the agent may use, in bytes.
const MAX_MEMORY: u64 = 256 << 20;

/// Time that one profile covers, and its bounds.
const WINDOW: Duration = Duration::from_secs(15);
const SHORTEST_WINDOW: Duration = Duration::from_secs(1);
const LONGEST_WINDOW: Duration = Duration::from_secs(60 * 60);

/// Time to send the last profiles.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// Environment variables of a pod: the address of the API server, set by Kubernetes, and the name of
/// the node, set by the manifest.
pub const CLUSTER_VARIABLES: [&str; 3] = [
    "KUBERNETES_SERVICE_HOST",
    "KUBERNETES_SERVICE_PORT",
    "NODE_NAME",
];

/// The sources of a configuration.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The file.
    pub file: Option<PathBuf>,
    /// Environment variables, with their values: `AGENT_…` and [`CLUSTER_VARIABLES`].
    pub variables: Vec<(String, String)>,
    /// Keys given as flags, with their values.
    pub flags: Vec<(&'static str, String)>,
    /// Folder of profiles when no exporter is configured.
    pub folder: PathBuf,
    /// The Unix socket when none is configured.
    pub socket: Option<PathBuf>,
}

/// Why a configuration is not valid.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read the configuration '{}' ({source})", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the kernel.
        source: io::Error,
    },
    /// The file is not valid.
    #[error("'{}': {message}", path.display())]
    Contents {
        /// The file.
        path: PathBuf,
        /// The error, with its position.
        message: String,
    },
    /// The value of a flag or a variable is not valid.
    #[error("{origin}: {message}")]
    Value {
        /// The flag or the variable.
        origin: String,
        /// The error.
        message: String,
    },
    /// The value of a key is not valid.
    #[error("`{key}` {message}")]
    Key {
        /// The key.
        key: &'static str,
        /// The error.
        message: String,
    },
    /// A condition of `include` or `exclude` is not valid.
    #[error("{0}")]
    Condition(String),
    /// An exporter is not valid.
    #[error("exporter `{name}` {source}")]
    Exporter {
        /// Its name.
        name: String,
        /// The error.
        source: Invalid,
    },
}

impl Sources {
    /// The value of a variable that is set and not empty.
    fn variable(&self, name: &str) -> Option<&str> {
        let mut variables = self.variables.iter();
        let (_, value) = variables.find(|(variable, _)| variable == name)?;
        Some(value.as_str()).filter(|value| !value.is_empty())
    }
}

impl Config {
    /// Reads and checks all sources.
    ///
    /// # Errors
    ///
    /// The first error found.
    pub fn read(sources: &Sources) -> Result<Self, Error> {
        let file = match &sources.file {
            Some(path) => read_file(path.clone())?,
            None => Written::default(),
        };
        let mut variables = Written::default();
        let mut flags = Written::default();
        for key in KEYS {
            let name = key.variable();
            let mut given = sources.variables.iter();
            if let Some((_, value)) = given.find(|(variable, _)| *variable == name) {
                variables = one(key.name, value, &name)?.or(variables);
            }
            let mut given = sources.flags.iter();
            if let Some((_, value)) = given.find(|(flag, _)| *flag == key.name) {
                flags = one(key.name, value, &format!("--{}", key.flag()))?.or(flags);
            }
        }
        check(flags.or(variables).or(file), sources)
    }
}

fn read_file(path: PathBuf) -> Result<Written, Error> {
    let mut text = String::new();
    let read = File::open(&path).and_then(|file| {
        file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)?;
        if text.len() as u64 > MAX_FILE_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(())
    });
    if let Err(source) = read {
        return Err(Error::File { path, source });
    }
    let document = serde_yaml_ng::Deserializer::from_str(&text);
    // A file that is empty or has only comments sets no key.
    match Option::<Written>::deserialize(document) {
        Ok(written) => Ok(written.unwrap_or_default()),
        Err(error) => Err(Error::Contents {
            path,
            message: with_hint(&error.to_string()),
        }),
    }
}

/// Parses one key: its value as in the file or, where that is not valid, as a string.
fn one(key: &str, value: &str, origin: &str) -> Result<Written, Error> {
    let with = |value: Value| {
        let mapping = Mapping::from_iter([(Value::from(key), value)]);
        Written::deserialize(Value::Mapping(mapping))
    };
    let value_in_file = serde_yaml_ng::from_str::<Value>(value).and_then(with);
    value_in_file.or_else(|error| {
        with(Value::from(value)).map_err(|_| Error::Value {
            origin: origin.to_owned(),
            message: with_hint(&error.to_string()),
        })
    })
}

/// The events, in the order of [`Kind::ALL`].
fn kinds(written: Option<Words>) -> Result<Vec<&'static Kind>, Error> {
    let Some(Words(names)) = written else {
        return Ok(vec![&CPU]);
    };
    let known = || Kind::ALL.iter().map(|kind| kind.name);
    if let Some(name) = names
        .iter()
        .find(|name| !known().any(|known| known == **name))
    {
        let known = known().collect::<Vec<_>>().join(", ");
        let message = format!("has `{name}`: the events are {known}");
        return Err(key("events", message));
    }
    if names.is_empty() {
        return Err(key("events", "is empty".to_owned()));
    }
    let kinds = Kind::ALL.iter().copied();
    let is_wanted = |kind: &&Kind| names.iter().any(|name| name == kind.name);
    let kinds: Vec<_> = kinds.filter(is_wanted).collect();
    match kinds.iter().find(|kind| kind.pages().is_some()) {
        Some(Kind { name, .. }) => {
            let message = format!(
                "has `{name}`, which a host does not have: leave it out, and see `growth`, or run \
                 agent --pid PID --event {name} for a process"
            );
            Err(key("events", message))
        }
        None => Ok(kinds),
    }
}

fn check(written: Written, sources: &Sources) -> Result<Config, Error> {
    let kinds = kinds(written.events)?;
    let rate = written.rate.unwrap_or(RATE);
    for (name, rate) in [("rate", Some(rate)), ("wait_rate", written.wait_rate)] {
        if let Some(rate) = rate.filter(|rate| !(1..=MAX_RATE).contains(rate)) {
            let message = format!("is {rate}: it must be from 1 to {MAX_RATE}");
            return Err(key(name, message));
        }
    }
    let trace_switches = written.trace_switches.unwrap_or(false);
    if trace_switches && !kinds.iter().any(|kind| kind.needs_stacks_of_passes()) {
        let message =
            "is about waits: add an event of waiting, as wall, to `events`, or leave it out";
        return Err(key("trace_switches", message.to_owned()));
    }
    let window = written.window.map_or(WINDOW, |time| time.0);
    if !(SHORTEST_WINDOW..=LONGEST_WINDOW).contains(&window) {
        return Err(key("window", "must be from 1s to 1h".to_owned()));
    }
    let max_cpu = written.max_cpu.unwrap_or(MAX_CPU_PERCENT);
    if !(max_cpu > 0.0 && max_cpu <= 100.0) {
        return Err(key(
            "max_cpu",
            format!("is {max_cpu}: it must be a percentage up to 100"),
        ));
    }
    let http_server = HttpServer::checked(
        written.listen.as_deref(),
        written.socket,
        sources.socket.clone(),
        written.http_hosts.map_or_else(Vec::new, |hosts| hosts.0),
        written.http_token_file,
    )
    .map_err(|(name, message)| key(name, message))?;
    let [host, port, node] = CLUSTER_VARIABLES.map(|name| sources.variable(name));
    let labels = Labels {
        fixed: written.labels.unwrap_or_default(),
        per_process: written.per_process.unwrap_or(false),
        rules: written.relabel_configs.unwrap_or_default(),
        command_lines: written.command_lines.unwrap_or(false),
        trust_environment: written.trust_environment.unwrap_or(true),
        node: written
            .node
            .or(node.map(str::to_owned))
            .filter(|node| !node.is_empty()),
        host_root: written.host_root.unwrap_or_else(|| "/".into()),
    };
    for name in labels.fixed.keys() {
        if !crate::targets::labels::is_name(name) {
            let message = format!("has `{name}`: names are letters, digits and _");
            return Err(key("labels", message));
        }
    }
    let cluster = Cluster {
        host,
        port,
        node: labels.node.as_deref(),
    };
    let kubernetes = written.kubernetes.unwrap_or_default();
    let kubernetes = kubernetes
        .checked(&cluster, &labels.host_root)
        .map_err(|message| key("kubernetes", message))?;
    Ok(Config {
        warnings: variables::warnings(&sources.variables),
        kinds,
        rate,
        wait_rate: written.wait_rate.and_then(NonZeroU32::new),
        max_cpu: max_cpu / 100.0,
        max_memory: written.max_memory.map_or(MAX_MEMORY, |size| size.0),
        window,
        native: written.native.unwrap_or(true),
        idle: written.idle.unwrap_or(false),
        trace_switches,
        exceptions: RecordedExceptions::of_option(written.all_exceptions.unwrap_or(false)),
        thread_labels: written.thread_labels.unwrap_or(false),
        selector: selector(written.include, written.exclude)?,
        labels,
        kubernetes,
        exporters: exporters(written.exporters, &sources.folder)?,
        http_server,
        log: Log {
            level: written.log_level.unwrap_or_else(|| "info".to_owned()),
            format: written.log_format.unwrap_or_default(),
        },
        shutdown_timeout: written
            .shutdown_timeout
            .map_or(SHUTDOWN_TIMEOUT, |time| time.0),
    })
}

fn selector(include: Option<Value>, exclude: Option<Value>) -> Result<Selector, Error> {
    let lists = [("include", include), ("exclude", exclude)];
    let written = lists.into_iter().filter_map(|(name, list)| {
        let list = list.filter(|list| !list.is_null())?;
        Some((name.into(), list))
    });
    let written = Value::Mapping(written.collect());
    serde_path_to_error::deserialize(written).map_err(|error| {
        let message = with_hint(&error.inner().to_string());
        let path = error.path();
        Error::Condition(if path.iter().next().is_some() {
            format!("`{path}` cannot be used: {message}")
        } else {
            message
        })
    })
}

fn exporters(
    written: Option<BTreeMap<String, exporters::Exporter>>,
    folder: &std::path::Path,
) -> Result<Vec<crate::export::ExporterConfig>, Error> {
    let Some(written) = written else {
        return Ok(vec![exporters::in_folder("local", folder.to_owned())]);
    };
    let mut all = Vec::with_capacity(written.len());
    for (name, exporter) in written {
        let checked = exporter.checked(&name).and_then(|config| {
            exporters::check_spool(&config, &all)?;
            Ok(config)
        });
        all.push(checked.map_err(|source| Error::Exporter { name, source })?);
    }
    Ok(all)
}

fn key(key: &'static str, message: String) -> Error {
    Error::Key { key, message }
}

/// Appends the key that is most similar to an unknown one.
fn with_hint(message: &str) -> String {
    let hint = || {
        let (_, rest) = message.split_once("unknown field `")?;
        let (unknown, known) = rest.split_once('`')?;
        nearest(unknown, known.split('`').skip(1).step_by(2))
    };
    match hint() {
        Some(nearest) => format!("{message} (did you mean `{nearest}`?)"),
        None => message.to_owned(),
    }
}
