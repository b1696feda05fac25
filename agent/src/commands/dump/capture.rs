//! Takes the stacks of all threads of a process, by a session that ends as soon as it has them.

use std::time::Duration;

use anyhow::{Context as _, Result};

use super::{
    outside,
    taken::{Capture, Processes, Subjects, shown},
};
use crate::{
    bpf::{self, Unmet},
    commands::cli::{DumpOptions, ShownFrames},
    session::{End, Scope, Session, Signals, memory},
    symbolize::{CpuShare, CpuShares, NativeSymbolizer},
};

/// Takes the stack of each thread of the processes.
///
/// # Errors
///
/// One sentence that says what to do.
pub(super) async fn take(options: &DumpOptions) -> Result<Capture> {
    memory::limit_arenas();
    match bpf::check_requirements() {
        Ok(()) => {}
        Err(Unmet::Capabilities(missing)) => {
            return outside::take(options, &format!("without {missing}")).await;
        }
        Err(unmet) => return Err(unmet.into()),
    }
    match take_with_programs(options).await {
        // As in a container whose root is not that of the host.
        Err(error) if is_not_permitted(&error) => {
            outside::take(options, &format!("as {error}")).await
        }
        taken => taken,
    }
}

/// Whether BPF programs may not be loaded, whatever the capabilities are.
fn is_not_permitted(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<bpf::Error>();
    error.is_some_and(bpf::Error::is_not_permitted)
}

/// The same by the BPF programs.
async fn take_with_programs(options: &DumpOptions) -> Result<Capture> {
    let Subjects {
        examinations,
        found,
        settings,
        taking,
    } = Subjects::examine(options, options.native).await?;
    let mut signals = Signals::to_end()?;
    let scope = Scope::of(found, options.children);
    let mut found = Processes::default();
    let opened = Session::open(&settings, examinations, scope, &mut signals, &mut found);
    let mut session = opened.await?;
    let mut end = End::new(&taking.pids, None, signals)?;
    let frames = options.frames;
    // The result is nothing.
    drop(session.profiles.run(move |profiles| {
        if let Some(native) = &mut profiles.native {
            limit_look_ups(native, frames);
        }
    }));
    let began = session.start()?;
    let taken = session.take_snapshot(
        &began,
        &taking.snapshot,
        options.timeout,
        &mut end,
        &mut found,
    );
    let reason = taken.await?;
    let ended = taking.end(options, began.at.elapsed(), reason);
    let filter = shown();
    let finished = session.finish(&began, settings.periods, &filter, reason, &mut end, None);
    let profile = finished.await?.into_iter().next();
    ended.with(profile.context("there is no profile")?, found, None)
}

/// Leaves out what is not shown, and takes longer to look up than all else takes.
pub(super) fn limit_look_ups(native: &mut NativeSymbolizer, frames: ShownFrames) {
    if !frames.kernel {
        native.leave_out_kernel();
    }
    if !frames.inlined {
        let nothing = CpuShare {
            burst: Duration::ZERO,
            per_second: Duration::ZERO,
        };
        native.limit_cpu(CpuShares {
            opening: nothing,
            look_ups: nothing,
        });
    }
}
