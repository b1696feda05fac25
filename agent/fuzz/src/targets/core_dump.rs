//! Core dumps: the file is the bytes of the run, behind one that says which version of Python to look for in it.

use std::path::Path;

use agent::{
    fuzzing::{
        aggregate::Executables,
        core_dump::{CoreDump, core_threads},
        process::{OpenError, RegularFile},
    },
    testing::python::{
        remote::{Target, read},
        versions::SUPPORTED,
    },
};
use agent_common::memory::UserAddr;

/// No file is read but the dump itself.
fn nothing(path: &Path) -> Result<RegularFile, OpenError> {
    Err(OpenError::NotRegular {
        path: path.to_owned(),
    })
}

pub(super) fn run(bytes: &[u8]) {
    let Some((series, file)) = bytes.split_first() else {
        return;
    };
    let Ok(core) = CoreDump::read(file, Path::new("core"), nothing) else {
        return;
    };
    let series = &SUPPORTED[usize::from(*series) % SUPPORTED.len()];
    for mapping in core.mappings() {
        let mut bytes = [0; 24];
        for address in [mapping.start, mapping.end.wrapping_sub(12), mapping.end] {
            let _ = core.read_memory(address, &mut bytes);
        }
        let target = Target {
            interpreters_head: UserAddr(mapping.start),
            gil_holder: None,
            layout: series.layout,
        };
        if mapping.permissions.write {
            let _ = read(&core, &target);
        }
    }
    // Native frames, by the tables of the vDSO, which is in the dump.
    let executables = Executables::default();
    if let Ok(mapped) = executables.read_mappings(&core) {
        let _ = core_threads(&core, None, Some((&executables, &mapped.mappings)));
    }
    let _ = (core.truncation(), core.command_line(), core.changed_files().count());
}
