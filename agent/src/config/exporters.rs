//! Exporters as they are written in a configuration.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use serde::Deserialize;

use super::quantities::{Size, Time};
use crate::{
    export::{
        self, Authentication, ClientCertificate, DestinationConfig, FileConfig, HttpConfig,
        OtlpConfig, OtlpProtocol, ParcaConfig, PyroscopeConfig, QueueLimits, Retry, Secret,
        SecretSource, SpoolConfig, TlsConfig,
    },
    formats::FunctionNames,
};

/// Disk space of a folder of profiles by default, in bytes.
const FOLDER_BYTES: u64 = 512 << 20;

/// Age of the oldest profile in a folder by default.
const FOLDER_AGE: Duration = Duration::from_secs(6 * 60 * 60);

/// Disk space of a spool by default, in bytes.
const SPOOL_BYTES: u64 = 256 << 20;

/// An exporter.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
pub(super) enum Exporter {
    /// A folder.
    File(Folder),
    /// Grafana Pyroscope.
    Pyroscope(Collector),
    /// Parca.
    Parca(Collector),
    /// OpenTelemetry.
    Otlp(Collector),
}

/// A folder of profiles.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Folder {
    #[serde(rename = "folder")]
    path: PathBuf,
    max_bytes: Option<Size>,
    max_age: Option<Time>,
    function_names: Option<Names>,
}

/// A collector.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Collector {
    url: String,
    /// Of OpenTelemetry: `grpc` or `http`.
    protocol: Option<Protocol>,
    /// Of Pyroscope: the tenant.
    tenant: Option<String>,
    function_names: Option<Names>,
    ca_file: Option<PathBuf>,
    cert_file: Option<PathBuf>,
    key_file: Option<PathBuf>,
    bearer_token_file: Option<PathBuf>,
    username: Option<String>,
    password_file: Option<PathBuf>,
    #[serde(default)]
    allow_plaintext: bool,
    #[serde(default)]
    headers: BTreeMap<String, Hidden>,
    connect_timeout: Option<Time>,
    timeout: Option<Time>,
    spool: Option<Spool>,
    queue: Option<Queue>,
}

/// A value that may be a secret.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "String")]
struct Hidden(Secret);

impl From<String> for Hidden {
    fn from(text: String) -> Self {
        Self(Secret::new(text))
    }
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Protocol {
    Grpc,
    Http,
}

/// How Python functions are named.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Names {
    Plain,
    Module,
}

impl From<Names> for FunctionNames {
    fn from(names: Names) -> Self {
        match names {
            Names::Plain => Self::Plain,
            Names::Module => Self::Module,
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Spool {
    folder: PathBuf,
    max_bytes: Option<Size>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Queue {
    max_profiles: Option<usize>,
    max_bytes: Option<Size>,
}

/// Why an exporter is not valid.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Invalid {
    /// Two keys exclude each other.
    #[error("has both {one} and {other}: give one of them")]
    Both {
        /// The first key.
        one: &'static str,
        /// The second key.
        other: &'static str,
    },
    /// A key needs another.
    #[error("has {one} but no {needed}")]
    Half {
        /// The key that is there.
        one: &'static str,
        /// The key that is missing.
        needed: &'static str,
    },
    /// A queue has no room.
    #[error("has a queue with {field}: 0, which is full at once: give more, or leave it out")]
    EmptyQueue {
        /// The key.
        field: &'static str,
    },
    /// Two exporters have the same spool.
    #[error(
        "has the folder '{}' for its spool, as exporter `{other}`: give each one a folder of its own",
        folder.display()
    )]
    SharedSpool {
        /// The other exporter.
        other: String,
        /// The folder.
        folder: PathBuf,
    },
    /// A key belongs to another type of exporter.
    #[error("has {field}, which only exporters of type {of} have")]
    Foreign {
        /// The key.
        field: &'static str,
        /// The type that has it.
        of: &'static str,
    },
}

impl Queue {
    /// Refuses one without room.
    fn check(&self) -> Result<(), Invalid> {
        let is_empty = [
            ("max_profiles", self.max_profiles == Some(0)),
            ("max_bytes", matches!(self.max_bytes, Some(Size(0)))),
        ];
        match is_empty.into_iter().find(|(_, is_empty)| *is_empty) {
            Some((field, _)) => Err(Invalid::EmptyQueue { field }),
            None => Ok(()),
        }
    }
}

/// Whether an exporter has the spool of one before it.
pub(super) fn check_spool(
    config: &export::ExporterConfig,
    before: &[export::ExporterConfig],
) -> Result<(), Invalid> {
    let folder = |config: &export::ExporterConfig| Some(config.spool.as_ref()?.folder.clone());
    let Some(own) = folder(config) else {
        return Ok(());
    };
    let other = before.iter().find(|it| folder(it).as_ref() == Some(&own));
    other.map_or(Ok(()), |other| {
        Err(Invalid::SharedSpool {
            other: other.name.clone(),
            folder: own,
        })
    })
}

/// The exporter for a configuration without exporters.
pub(super) fn in_folder(name: &str, folder: PathBuf) -> export::ExporterConfig {
    let folder = Folder {
        path: folder,
        max_bytes: None,
        max_age: None,
        function_names: None,
    };
    plain(name, DestinationConfig::File(folder.checked()))
}

impl Exporter {
    /// The validated exporter.
    pub(super) fn checked(self, name: &str) -> Result<export::ExporterConfig, Invalid> {
        match self {
            Self::File(folder) => Ok(plain(name, DestinationConfig::File(folder.checked()))),
            Self::Pyroscope(mut collector) => {
                let tenant = collector.tenant.take();
                let function_names = collector.function_names();
                collector.checked(name, |http| {
                    DestinationConfig::Pyroscope(PyroscopeConfig {
                        http,
                        tenant,
                        function_names,
                    })
                })
            }
            Self::Parca(collector) => {
                let function_names = collector.function_names();
                collector.checked(name, |http| {
                    DestinationConfig::Parca(ParcaConfig {
                        http,
                        function_names,
                    })
                })
            }
            Self::Otlp(mut collector) => {
                let function_names = collector.function_names();
                let protocol = collector.protocol.take();
                collector.checked(name, |http| {
                    let protocol = match protocol {
                        Some(Protocol::Http) => OtlpProtocol::Http,
                        Some(Protocol::Grpc) | None => OtlpProtocol::Grpc,
                    };
                    DestinationConfig::Otlp(OtlpConfig {
                        http,
                        protocol,
                        function_names,
                    })
                })
            }
        }
    }
}

impl Folder {
    fn checked(self) -> FileConfig {
        FileConfig {
            folder: self.path,
            max_bytes: self.max_bytes.map_or(FOLDER_BYTES, |size| size.0),
            max_age: self.max_age.map_or(FOLDER_AGE, |time| time.0),
            function_names: self
                .function_names
                .map_or(FunctionNames::Plain, FunctionNames::from),
        }
    }
}

impl Collector {
    /// By default with their module: collectors merge by names.
    fn function_names(&self) -> FunctionNames {
        self.function_names
            .map_or(FunctionNames::Module, FunctionNames::from)
    }

    fn checked(
        self,
        name: &str,
        to: impl FnOnce(HttpConfig) -> DestinationConfig,
    ) -> Result<export::ExporterConfig, Invalid> {
        self.check_foreign()?;
        let authentication = self.authentication()?;
        let client = match (self.cert_file, self.key_file) {
            (Some(certificate_file), Some(key_file)) => Some(ClientCertificate {
                certificate_file,
                key_file,
            }),
            (None, None) => None,
            (Some(_), None) => return Err(half("cert_file", "key_file")),
            (None, Some(_)) => return Err(half("key_file", "cert_file")),
        };
        let mut http = HttpConfig::new(self.url);
        http.tls = TlsConfig {
            ca_file: self.ca_file,
            client,
        };
        http.authentication = authentication;
        http.allow_plaintext = self.allow_plaintext;
        let headers = self.headers.into_iter();
        http.headers = headers.map(|(name, value)| (name, value.0)).collect();
        if let Some(time) = self.connect_timeout {
            http.connect_timeout = time.0;
        }
        if let Some(time) = self.timeout {
            http.request_timeout = time.0;
        }
        let mut config = plain(name, to(http));
        config.spool = self.spool.map(|spool| SpoolConfig {
            folder: spool.folder,
            max_bytes: spool.max_bytes.map_or(SPOOL_BYTES, |size| size.0),
        });
        if let Some(queue) = self.queue {
            queue.check()?;
            let bytes = queue
                .max_bytes
                .map(|size| usize::try_from(size.0).unwrap_or(usize::MAX));
            config.queue.max_batches = queue.max_profiles.unwrap_or(config.queue.max_batches);
            config.queue.max_bytes = bytes.unwrap_or(config.queue.max_bytes);
        }
        Ok(config)
    }

    /// Refuses keys of other types; the caller has taken those of its own type.
    fn check_foreign(&self) -> Result<(), Invalid> {
        let foreign = |field, of| Err(Invalid::Foreign { field, of });
        match self {
            Self {
                protocol: Some(_), ..
            } => foreign("protocol", "otlp"),
            Self {
                tenant: Some(_), ..
            } => foreign("tenant", "pyroscope"),
            _ => Ok(()),
        }
    }

    fn authentication(&self) -> Result<Authentication, Invalid> {
        let token = self.bearer_token_file.clone();
        let user = self.username.clone();
        let password = self.password_file.clone();
        match (token, user, password) {
            (None, None, None) => Ok(Authentication::None),
            (Some(file), None, None) => Ok(Authentication::Bearer(SecretSource::File(file))),
            (None, Some(user), Some(file)) => Ok(Authentication::Basic {
                user,
                password: SecretSource::File(file),
            }),
            (None, Some(_), None) => Err(half("username", "password_file")),
            (None, None, Some(_)) => Err(half("password_file", "username")),
            (Some(_), Some(_), _) => Err(both("bearer_token_file", "username")),
            (Some(_), None, Some(_)) => Err(both("bearer_token_file", "password_file")),
        }
    }
}

fn half(one: &'static str, needed: &'static str) -> Invalid {
    Invalid::Half { one, needed }
}

fn both(one: &'static str, other: &'static str) -> Invalid {
    Invalid::Both { one, other }
}

fn plain(name: &str, to: DestinationConfig) -> export::ExporterConfig {
    export::ExporterConfig {
        name: name.to_owned(),
        destination: to,
        queue: QueueLimits::default(),
        spool: None,
        retry: Retry::default(),
    }
}
