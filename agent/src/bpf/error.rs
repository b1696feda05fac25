//! Why the BPF programs cannot be used, and what to do about it.

use std::{error, io, iter};

use aya::{EbpfError, maps::MapError, programs::ProgramError};

use super::{btf, rights::paranoid_hint};

/// Why the BPF programs cannot be loaded or used.
///
/// Messages are complete: they contain the error of the call that failed, of the verifier's log one
/// line. A [`ProgramError`] is therefore no `source`: its text is the whole log.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel's BTF lacks an offset that the programs need.
    #[error(transparent)]
    Btf(#[from] btf::Error),
    /// The object file was refused as a whole.
    #[error("the BPF programs could not be loaded: {0}")]
    Load(#[from] EbpfError),
    /// The kernel's BTF says nowhere where resident pages are counted.
    #[error(
        "where this kernel counts resident memory is not known, so that no event of memory can be \
         profiled: please report the kernel's version, and leave out growth, in-use, peak and copy-on-write"
    )]
    ResidentCounters,
    /// A call for one program failed.
    #[error(
        "the kernel refused to {call} the BPF program `{program}` ({}): please report it with the \
         kernel's version",
        reason(error)
    )]
    Program {
        /// What was tried: "load", "attach", "detach", "unload".
        call: &'static str,
        /// The program's name.
        program: &'static str,
        /// The error of the call.
        error: ProgramError,
    },
    /// The sampling event of a CPU could not be opened or attached.
    #[error(
        "the event {event} of CPU {cpu} cannot be attached ({}){}",
        chain(error),
        paranoid_hint()
    )]
    SamplingEvent {
        /// What it samples.
        event: &'static str,
        /// The CPU.
        cpu: u32,
        /// The error of the call.
        error: ProgramError,
    },
    /// The probe of exceptions could not be attached.
    #[error(
        "the kernel refuses probes in programs ({source}){}",
        probe_hint(source)
    )]
    Probe {
        /// The error of the call.
        source: io::Error,
    },
    /// A call for one map failed.
    #[error("cannot {call} the BPF map `{map}`: {source}")]
    Map {
        /// What was tried: "create", "open", "read", "write".
        call: &'static str,
        /// The map's name.
        map: &'static str,
        /// The error of the call.
        source: MapError,
    },
    /// Processes have as many different layouts of interpreters as the BPF programs take.
    #[error("too many different builds of CPython run at the same time")]
    TooManyLayouts,
    /// The programs' log could not be opened.
    #[error("cannot read the log of the BPF programs: {0}")]
    Log(#[from] aya_log::Error),
    /// The object file lacks a program or map.
    #[error(
        "the BPF programs have no `{0}`: the agent was built from sources that do not belong \
         together"
    )]
    Incomplete(&'static str),
    /// A call that is not about BPF failed.
    #[error("cannot {call}: {source}")]
    System {
        /// What was tried.
        call: &'static str,
        /// The error of the call.
        source: io::Error,
    },
}

impl Error {
    /// Whether the kernel permits the agent nothing of the kind, whatever the programs are (`EPERM`).
    #[must_use]
    pub fn is_not_permitted(&self) -> bool {
        let error: &(dyn error::Error + 'static) = match self {
            Self::Load(error) => error,
            Self::Program { error, .. } => error,
            Self::Map { source, .. } => source,
            Self::System { source, .. } => source,
            _ => return false,
        };
        let mut chain = iter::successors(Some(error), |error| error.source());
        chain.any(|error| {
            let error = error.downcast_ref::<io::Error>();
            error.is_some_and(|error| error.raw_os_error() == Some(libc::EPERM))
        })
    }
}

/// Error of a `call` for `program`.
pub(super) fn program_error(
    call: &'static str,
    program: &'static str,
) -> impl Fn(ProgramError) -> Error + Copy {
    move |error| Error::Program {
        call,
        program,
        error,
    }
}

/// Error of a `call` for `map`.
pub(super) fn map_error(
    call: &'static str,
    map: &'static str,
) -> impl Fn(MapError) -> Error + Copy {
    move |source| Error::Map { call, map, source }
}

/// What to do about a probe that is not permitted.
fn probe_hint(source: &io::Error) -> &'static str {
    if source.kind() == io::ErrorKind::PermissionDenied {
        ": they require CAP_SYS_ADMIN, which the agent has in effect only while it attaches them; give it to the agent \
         (root on the host has it; containers: --cap-add=SYS_ADMIN; systemd: CAP_SYS_ADMIN in AmbientCapabilities and \
         CapabilityBoundingSet), or leave out the events alloc and exceptions"
    } else {
        ""
    }
}

/// Why a program was refused, in one line: the last line of the verifier's log before its
/// statistics.
fn reason(error: &ProgramError) -> String {
    let ProgramError::LoadError {
        io_error,
        verifier_log,
    } = error
    else {
        return chain(error);
    };
    let log = verifier_log.to_string();
    let statistics = ["verification time", "stack depth", "processed "];
    let last =
        log.lines().rev().map(str::trim).find(|line| {
            !line.is_empty() && !statistics.iter().any(|start| line.starts_with(start))
        });
    match last {
        Some(line) => format!("{io_error}, {line}"),
        None => io_error.to_string(),
    }
}

/// An error and its sources, in one line.
fn chain(error: &dyn error::Error) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        line = format!("{line}: {error}");
        source = error.source();
    }
    line
}
