//! What is left out because reading it takes too long, here and by the agent of this host.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Result;

use crate::{
    commands::{
        cli::{DoctorOptions, RunOptions},
        run::sources,
    },
    config::Config,
    daemon::{QUARANTINE_PATH, QuarantineList},
    http_client::{Client, HttpProtocol},
    process::fuse::silent_file_systems,
};

/// Time for the answer of the agent.
const TIMEOUT: Duration = Duration::from_secs(2);

/// What is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// File systems that did not answer when the process was examined.
    pub file_systems: Vec<String>,
    /// By the agent of this host; [`None`] where none answers.
    pub by_agent: Option<QuarantineList>,
}

impl LeftOut {
    /// Requests it from the agent with this configuration, or the default one.
    ///
    /// # Errors
    ///
    /// When the configuration is given and not valid.
    pub(super) async fn find(options: &DoctorOptions, folder: PathBuf) -> Result<Self> {
        let run = RunOptions {
            config: options.config.clone(),
            ..RunOptions::default()
        };
        let socket = match Config::read(&sources(&run, folder)) {
            Ok(config) => config.http_server.socket,
            Err(error) if options.config.is_some() => return Err(error.into()),
            Err(_) => None,
        };
        Ok(Self {
            file_systems: silent_file_systems(),
            by_agent: match socket {
                Some(socket) => request(&socket.path).await,
                None => None,
            },
        })
    }
}

/// The list of the agent at a Unix socket, if there is one that may be connected to.
async fn request(socket: &Path) -> Option<QuarantineList> {
    let client = Client::on_socket(socket, HttpProtocol::Http1, TIMEOUT);
    let list = client.get(QUARANTINE_PATH).await.ok()?;
    serde_json::from_slice(&list).ok()
}
