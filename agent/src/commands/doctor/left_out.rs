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
    workers::Quarantined,
};

/// Time for the answer of the agent.
const TIMEOUT: Duration = Duration::from_secs(2);

/// What is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// What the examination and the sampling of the process have left out, with the reasons.
    pub here: Vec<(String, &'static str)>,
    /// By the agent of this host; [`None`] where none answers.
    pub by_agent: Option<QuarantineList>,
}

impl LeftOut {
    /// Adds what workers have put into quarantine.
    pub(super) fn add(&mut self, quarantined: Vec<Quarantined>) {
        let named = quarantined.into_iter().map(|it| (it.name, it.reason));
        self.here.extend(named);
        self.here.sort_unstable();
        self.here.dedup();
    }

    /// Requests what the agent with this configuration, or the default one, leaves out.
    ///
    /// # Errors
    ///
    /// When the configuration is given and not valid.
    pub(super) async fn ask(&mut self, options: &DoctorOptions, folder: PathBuf) -> Result<()> {
        let run = RunOptions {
            config: options.config.clone(),
            ..RunOptions::default()
        };
        let socket = match Config::read(&sources(&run, folder)) {
            Ok(config) => config.http_server.socket,
            Err(error) if options.config.is_some() => return Err(error.into()),
            Err(_) => None,
        };
        self.by_agent = match socket {
            Some(socket) => request(&socket.path).await,
            None => None,
        };
        Ok(())
    }
}

/// The list of the agent at a Unix socket, if there is one that may be connected to.
async fn request(socket: &Path) -> Option<QuarantineList> {
    let client = Client::on_socket(socket, HttpProtocol::Http1, TIMEOUT);
    let list = client.get(QUARANTINE_PATH).await.ok()?;
    serde_json::from_slice(&list).ok()
}
