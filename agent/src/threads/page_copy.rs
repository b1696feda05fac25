//! Copies pages of a process, all in one call.

use crate::process::Process;

/// Bytes of a page.
pub(super) const PAGE: usize = 4096;

/// Most pages of one call, by the kernel's bound for its arguments.
pub(super) const MAX_PAGES: usize = 1024;

/// The contents of a page.
pub(super) type Page = Box<[u8; PAGE]>;

/// Copies the first [`MAX_PAGES`] of the pages with these numbers, which must ascend, up to the first one that cannot
/// be read.
///
/// The call takes the process by its id: use the copy only if the program [still runs](Process::is_same_program)
/// afterwards.
pub(super) fn copy(process: &Process, numbers: &[u64]) -> Vec<Page> {
    let numbers = numbers.get(..MAX_PAGES).unwrap_or(numbers);
    let mut pages: Vec<Page> = numbers.iter().map(|_| Box::new([0; PAGE])).collect();
    let local: Vec<_> = pages
        .iter_mut()
        .map(|page| libc::iovec {
            iov_base: page.as_mut_ptr().cast(),
            iov_len: PAGE,
        })
        .collect();
    let are_neighbours = |one: &u64, next: &u64| one.checked_add(1) == Some(*next);
    let remote: Vec<_> = numbers
        .chunk_by(are_neighbours)
        .map(|run| {
            let first = run.first().copied().unwrap_or(u64::MAX);
            let address = first.saturating_mul(PAGE as u64);
            libc::iovec {
                iov_base: std::ptr::without_provenance_mut(
                    usize::try_from(address).unwrap_or(usize::MAX),
                ),
                iov_len: run.len() * PAGE,
            }
        })
        .collect();
    let pid = libc::pid_t::try_from(process.pid()).unwrap_or(0);
    // SAFETY: the local pages are valid for writes of their sizes; the kernel checks the others.
    let copied = unsafe {
        libc::process_vm_readv(
            pid,
            local.as_ptr(),
            local.len() as libc::c_ulong,
            remote.as_ptr(),
            remote.len() as libc::c_ulong,
            0,
        )
    };
    pages.truncate(usize::try_from(copied).unwrap_or(0) / PAGE);
    pages
}
