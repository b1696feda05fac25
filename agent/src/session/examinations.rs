//! Examinations of processes, on worker threads.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use tokio::task::JoinSet;

use crate::{
    binaries::executables::Executables,
    process,
    targets::{
        discovery::Examination,
        examiner::{Examiner, Finding},
        labels::metadata::MetadataOptions,
    },
    workers::{Failure, Lane, Pending, Subject, Workers},
};

/// Time for the examination of a process.
const LIMIT: Duration = Duration::from_secs(10);

/// Examines processes on worker threads.
#[derive(Clone, Default)]
pub struct Examinations {
    /// The threads.
    pub workers: Workers,
    /// The executables that processes map; empty when only Python frames are wanted.
    pub executables: Executables,
    examiner: Arc<Examiner>,
}

impl Examinations {
    /// `native` says whether native frames are wanted.
    #[must_use]
    pub fn new(native: bool) -> Self {
        let executables = Executables::default();
        let examiner = Examiner::new(native.then(|| executables.clone()));
        Self {
            workers: Workers::default(),
            executables,
            examiner: examiner.into(),
        }
    }

    /// Reads what labels are made of too, from now on.
    pub fn set_metadata(&self, wanted: MetadataOptions) {
        self.examiner.set_metadata(wanted);
    }

    /// Examines a process.
    ///
    /// # Errors
    ///
    /// When it has exited, cannot be opened, or takes too long to read.
    pub async fn examine(&self, pid: u32) -> Result<Finding> {
        let examined = self.submit(pid, None).result().await;
        Ok(examined.with_context(|| format!("cannot examine process {pid}"))??)
    }

    /// Has a process examined.
    pub(super) fn submit(
        &self,
        pid: u32,
        parent: Option<u32>,
    ) -> Pending<Result<Finding, process::Error>> {
        let examiner = Arc::clone(&self.examiner);
        let subject = Subject::process(pid);
        let examine = move || examiner.examine(pid, parent);
        self.workers
            .submit(Lane::Processes, subject, LIMIT, examine)
    }
}

/// The examinations that are being made.
#[derive(Default)]
pub(super) struct Running(JoinSet<Examined>);

/// An examination and its result.
pub(super) struct Examined {
    pub(super) examination: Examination,
    /// The program that the process ran when the examination began: [`Bpf::program`].
    ///
    /// [`Bpf::program`]: crate::bpf::Bpf::program
    pub(super) program: u64,
    pub(super) result: Result<Result<Finding, process::Error>, Failure>,
}

impl Running {
    pub(super) fn begin(
        &mut self,
        examinations: &Examinations,
        examination: Examination,
        program: u64,
    ) {
        let pending = examinations.submit(examination.pid, examination.parent);
        self.0.spawn(async move {
            Examined {
                examination,
                program,
                result: pending.result().await,
            }
        });
    }

    /// The next that has ended; cancel safe.
    pub(super) async fn next(&mut self) -> Examined {
        match self.0.join_next().await {
            Some(Ok(examined)) => examined,
            // Tasks that only wait neither panic nor are cancelled.
            Some(Err(_)) | None => std::future::pending().await,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
