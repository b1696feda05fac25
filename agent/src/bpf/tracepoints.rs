//! Programs on tracepoints.

use aya::{Ebpf, programs::RawTracePoint};

use super::error::{Error, program_error};

/// Loads a program and attaches it to a tracepoint.
pub(super) fn attach(
    object: &mut Ebpf,
    name: &'static str,
    tracepoint: &'static str,
) -> Result<(), Error> {
    let program: &mut RawTracePoint = object
        .program_mut(name)
        .ok_or(Error::Incomplete(name))?
        .try_into()
        .map_err(program_error("load", name))?;
    program.load().map_err(program_error("load", name))?;
    program
        .attach(tracepoint)
        .map_err(program_error("attach", name))?;
    Ok(())
}

/// Has pages noted that are allocated while page faults are resolved.
pub(super) fn attach_page_allocated(object: &mut Ebpf) -> Result<(), Error> {
    attach(object, "on_page_allocated", "mm_page_alloc")
}
