//! `agent top`: where the time of a process or of the host goes, live.
//!
//! ```text
//! sampler ─► updates ─► state: history ─► rows ─► screen, or batch
//!   │                     ▲
//! session               keys
//! ```
//!
//! Invariants: state and drawing are apart: what is shown follows from profiles and keys alone; names of
//! processes, threads and functions are made printable where they come in; whatever is kept is bounded,
//! by [`history`].

mod batch;
pub(super) mod choices;
mod columns;
mod figures;
mod frames;
mod history;
mod keys;
mod load;
mod relatives;
mod rows;
mod sampler;
mod screen;
mod state;
mod terminal;
mod update;
mod window;

use std::{
    io::{self, IsTerminal as _},
    process::ExitCode,
    time::Duration,
};

use anyhow::Result;
use tokio::sync::mpsc;

use self::{
    choices::Detail,
    sampler::Sampler,
    state::{Choices, State},
};
use super::cli::TopOptions;
use crate::{bpf, session::memory};

/// Time over which shares are shown.
const SPAN: Duration = Duration::from_secs(10);

/// Updates that wait for the screen.
const MAX_UPDATES: usize = 4;

/// Samples and shows it until a key or a signal ends it.
///
/// # Errors
///
/// One sentence that says what to do.
pub(super) async fn run(options: &TopOptions) -> Result<ExitCode> {
    memory::limit_arenas();
    bpf::check_requirements()?;
    let is_batch = options.batch || !io::stdout().is_terminal();
    let sampling = Sampler::new(options, is_batch).await?;
    let state = State::new(choices(options));
    let (updates, receiver) = mpsc::channel(MAX_UPDATES);
    let shown = async {
        if is_batch {
            batch::run(state, receiver, options.iterations).await
        } else {
            screen::run(state, receiver, options.iterations).await
        }
    };
    // Whichever ends first ends the other, and the terminal is as it was.
    tokio::select! {
        biased;
        shown = shown => shown?,
        ended = sampling.run(updates) => ended?,
    }
    Ok(ExitCode::SUCCESS)
}

fn choices(options: &TopOptions) -> Choices {
    let windows = SPAN.as_secs_f64() / options.delay.as_secs_f64();
    Choices {
        view: options.view,
        event: options.event,
        detail: if options.native {
            Detail::default()
        } else {
            Detail::Python
        },
        sort: options.sort,
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a float that is too large becomes the largest integer"
        )]
        windows: windows.ceil() as usize,
    }
}
