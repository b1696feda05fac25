//! The processes that are sampled: their programs, interpreters and mappings.

use agent_common::maps::{AllocatorCode, Children, Mapping, TrackedProcess};

use super::Bpf;
use crate::bpf::{allocators::Allocators, error::Error, process_map::InterpreterLocation};

impl Bpf {
    /// Samples the process `tgid`, and those of the processes that it starts.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] when there is no room for another process, [`Error::TooManyLayouts`] when there is
    /// none for another layout.
    pub fn add_process(
        &mut self,
        tgid: u32,
        interpreter: Option<&InterpreterLocation>,
        with_children: Children,
    ) -> Result<(), Error> {
        self.processes.add(tgid, interpreter, with_children)
    }

    /// Whether a process is sampled.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] when the map cannot be read.
    pub fn has_process(&self, tgid: u32) -> Result<bool, Error> {
        self.processes.has(tgid)
    }

    /// Samples a process no longer.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] when the map cannot be written.
    pub fn remove_process(&mut self, tgid: u32) -> Result<(), Error> {
        self.processes.remove(tgid)
    }

    /// The program that a tracked process runs, as a number that is another one after each exec.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] when the map cannot be read.
    pub fn program(&self, tgid: u32) -> Result<u64, Error> {
        self.processes.program(tgid)
    }

    /// Whether what was set of a process is about the program that it runs; true of one that is not
    /// tracked.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] when the maps cannot be read.
    pub fn is_present(&self, tgid: u32) -> Result<bool, Error> {
        self.processes.is_present(tgid)
    }

    /// Has all that is set of a process from now on be about this program: it is void if the process
    /// runs another one meanwhile. What was set of the one before is removed.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] when the map cannot be written.
    pub fn set_program(&mut self, tgid: u32, program: u64) -> Result<(), Error> {
        self.processes.set_program(tgid, program)
    }

    /// Sets where a tracked process has its interpreter; nothing happens where it has ended.
    ///
    /// # Errors
    ///
    /// [`Error::TooManyLayouts`] when there is no room for another layout.
    pub fn update_process(
        &mut self,
        tgid: u32,
        interpreter: &InterpreterLocation,
    ) -> Result<(), Error> {
        self.processes.update(tgid, interpreter)
    }

    /// Whether a forked process still has the entry of its parent, or has ended. Neither is so where the agent
    /// has changed one of the entries since the fork.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] when the map cannot be read.
    pub fn is_copy(&self, tgid: u32, parent: u32) -> Result<bool, Error> {
        self.processes.is_copy(tgid, parent)
    }

    /// Gives a forked process the interpreter and the mappings of another one, of which it is a copy;
    /// [`false`] where one of them has ended meanwhile.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] when the map cannot be read or written.
    pub fn copy_process(&mut self, tgid: u32, original: u32) -> Result<bool, Error> {
        self.processes.copy(tgid, original)
    }

    /// Excludes a process from sampling until it runs another program, or includes it again.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] when the map cannot be written.
    pub fn set_excluded(&mut self, tgid: u32, is_excluded: bool) -> Result<(), Error> {
        self.processes.change(tgid, |process| TrackedProcess {
            is_excluded: is_excluded.into(),
            ..process
        })?;
        Ok(())
    }

    /// Sets the executable mappings of a process of this user, sorted by address; [`false`] where they
    /// find no room, or no more of this user do, and the process has no native frames.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] when a map cannot be written.
    pub fn set_mappings(
        &mut self,
        tgid: u32,
        user: u32,
        mappings: &[Mapping],
    ) -> Result<bool, Error> {
        let processes = &mut self.processes;
        self.mappings.set(processes, tgid, user, mappings)
    }

    /// Keeps the parent's mappings for a process that was forked.
    pub fn share_mappings(&mut self, tgid: u32, parent: u32) {
        self.mappings.share(tgid, parent);
    }

    /// Removes the mappings of a process that has ended or runs another program.
    pub fn remove_mappings(&mut self, tgid: u32) {
        self.mappings.remove(tgid);
    }

    /// Whether allocations can be recorded that programs announce.
    #[must_use]
    pub fn take_announced(&self) -> bool {
        let allocators = self.allocators.as_ref();
        allocators.is_some_and(Allocators::take_announced)
    }

    /// Sets where a process has the code of an allocator that replaces the C library's, or that it has none.
    pub fn set_allocator(&mut self, tgid: u32, code: Option<AllocatorCode>) {
        if let Some(allocators) = &mut self.allocators {
            allocators.set(tgid, code);
        }
    }

    /// Has a process that is a copy of another one have its allocator.
    pub fn copy_allocator(&mut self, tgid: u32, original: u32) {
        if let Some(allocators) = &mut self.allocators {
            allocators.copy(tgid, original);
        }
    }
}
