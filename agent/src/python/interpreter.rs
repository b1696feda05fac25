//! What is known of the CPython interpreter of a process: version, layout and addresses.

use std::{path::PathBuf, sync::Arc};

use agent_common::{
    layout::{Layout, RunningTaskLayout},
    maps::{AllocatorCode, CodeRange},
};

use super::{
    asyncio::AsyncioOffsets,
    gil::GilLocation,
    inspect::Flavour,
    layouts::{LayoutSource, RejectedSource},
    version::Version,
};
use crate::{
    binaries::probe_points::{self, ProbePoint},
    process::{file_name, maps::Mapping},
    profile,
};

/// The interpreter of a process.
#[derive(Clone, Debug)]
pub struct Interpreter {
    /// Its version.
    pub version: Version,
    /// How it was built.
    pub flavour: Flavour,
    /// The file that contains it, as a path in the mount namespace of the process.
    pub image: PathBuf,
    /// Address of the pointer to the newest interpreter state.
    pub interpreters_head: u64,
    /// Address of the pointer to the thread state that holds the GIL; [`None`] where the thread
    /// states have a flag for it.
    pub gil_holder: Option<u64>,
    /// The words on which threads wait for the GIL.
    pub gil: GilLocation,
    /// Where exceptions can be recorded; [`None`] where the file does not say where that is.
    pub raise_site: Option<ProbeSite>,
    /// Where allocations can be recorded.
    pub allocators: Vec<ProbeSite>,
    /// Where allocators of the process announce the allocations that they sample, in files without functions that have
    /// probes.
    pub announced: Vec<ProbeSite>,
    /// Where asyncio has its tasks; [`None`] where it was not imported, or does not say so (up to 3.13).
    pub asyncio: Option<AsyncioOffsets>,
    /// Bytes to subtract from the thread pointer to get `pthread_self()`.
    pub thread_pointer_distance: u64,
    /// Whether an interpreter state exists, so that there is something to profile; [`None`] when
    /// access to the memory of the process is denied.
    pub is_initialised: Option<bool>,
    /// The layout of its structures.
    pub layout: Layout,
    /// Where the layout comes from.
    pub layout_source: LayoutSource,
    /// Preferred sources of the layout that could not be used.
    pub rejected_sources: Vec<RejectedSource>,
    /// The executable mappings of files, those of the executable first.
    pub images: Arc<[profile::Image]>,
    /// Other loaded interpreters, the initialised ones first.
    pub others: Vec<OtherInterpreter>,
}

impl Interpreter {
    /// Whether the process may be about to map its libraries: the dynamic linker has mapped the file with the
    /// interpreter, which does not run yet.
    #[must_use]
    pub fn is_early(&self) -> bool {
        self.is_initialised == Some(false)
    }

    /// The code of the allocator that the process has instead of the C library's.
    #[must_use]
    pub fn replacing_allocator(&self) -> Option<&Mapping> {
        let site = self.allocators.iter().find(|site| site.is_replacing());
        site.map(|site| &site.mapping)
    }

    /// The code of its allocators that map memory for what they are asked for; [`None`] where only the C library's is
    /// known. `takes_announced` says whether allocations are recorded that programs announce.
    #[must_use]
    pub fn allocator_code(&self, takes_announced: bool) -> Option<AllocatorCode> {
        let of = |mapping: &Mapping| CodeRange {
            start: mapping.start,
            end: mapping.end,
        };
        let announced = self.announced.iter().filter(|_| takes_announced);
        let mut code = AllocatorCode {
            replacing: self.replacing_allocator().map(of).unwrap_or_default(),
            ..AllocatorCode::default()
        };
        for (range, site) in code.announcing.iter_mut().zip(announced) {
            *range = of(&site.mapping);
        }
        (code != AllocatorCode::default()).then_some(code)
    }

    /// Whether its C library is among the files.
    #[must_use]
    pub(super) fn has_c_library(&self) -> bool {
        self.allocators.iter().any(|site| !site.is_replacing())
    }

    /// Where it has the tasks that its threads run.
    #[must_use]
    pub fn running_task(&self) -> RunningTaskLayout {
        let offsets = self.asyncio.as_ref();
        offsets.map_or(RunningTaskLayout::UNKNOWN, AsyncioOffsets::running_task)
    }
}

/// Functions in a file that is mapped, at whose entries probes can be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeSite {
    /// The mapping of the code of one of them.
    pub mapping: Mapping,
    /// The functions.
    pub points: Vec<ProbePoint>,
}

impl ProbeSite {
    /// Whether it is in an allocator that a process can have instead of the C library's.
    fn is_replacing(&self) -> bool {
        let file = self.mapping.file.as_ref();
        let name = file.map(|file| String::from_utf8_lossy(file_name(&file.path)));
        name.is_some_and(|name| probe_points::is_allocator(&name))
    }

    /// These functions of a file with these mappings, if its code is mapped.
    pub(super) fn of<'a>(
        mut mappings: impl Iterator<Item = &'a Mapping>,
        points: &[ProbePoint],
    ) -> Option<Self> {
        let first = points.first()?;
        let has_code = |mapping: &&Mapping| {
            let bytes = mapping.end - mapping.start;
            let into = first.offset.checked_sub(mapping.file_offset);
            into.is_some_and(|into| into < bytes) && mapping.permissions.execute
        };
        Some(Self {
            mapping: mappings.find(has_code)?.clone(),
            points: points.to_vec(),
        })
    }
}

/// A loaded interpreter that was not chosen.
#[derive(Clone, Debug)]
pub struct OtherInterpreter {
    /// The file that contains it.
    pub image: PathBuf,
    /// Its version.
    pub version: Version,
    /// Address of the pointer to its newest interpreter state.
    pub interpreters_head: u64,
    /// Whether an interpreter state exists; [`None`] when access to the memory of the process is
    /// denied.
    pub is_initialised: Option<bool>,
}
