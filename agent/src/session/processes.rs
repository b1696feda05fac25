//! Processes of a session: their events, the results of their examinations, and what of both goes into
//! the BPF maps and to the profiles.

use std::time::{Duration, Instant};

use agent_common::{
    maps::{Children, KERNEL_THREADS},
    record::{ProcessEvent, ProcessEventKind},
};
use anyhow::Result;
use tokio::time::timeout_at;
use tracing::{debug, warn};

#[cfg(feature = "recorder")]
use super::recorder;
use super::{
    Session,
    counting::Events,
    examinations::Examined,
    observer::{Observer, Origin},
    profiles::Profiles,
    warn_on_error,
};
use crate::{
    bpf::{self, InterpreterLocation},
    process::{self, Descendant},
    profile,
    python::remote::tasks::TaskLocation,
    targets::{
        discovery::{Examination, Step, Validity},
        examiner::Finding,
    },
    threads::ProcessLocation,
    workers::{Lane, Subject},
};

/// Time for the faulting in of pages.
const PAGE_LIMIT: Duration = Duration::from_secs(2);

impl Session {
    pub(super) fn act_on<O: Observer>(&mut self, events: &Events, observer: &mut O) -> Result<()> {
        let Self {
            unwind_tables,
            examinations,
            ..
        } = self;
        if let Some(tables) = unwind_tables {
            for wanted in &events.wanted_tables {
                tables.request(&examinations.executables, wanted);
            }
            if !events.wanted_tables.is_empty() {
                self.note_tables();
            }
        }
        let mut result = Ok(());
        for event in &events.processes {
            result = result.and(self.on_event(event, observer));
        }
        for page in &events.absent_pages {
            let (pid, address, bytes) = (page.tgid, page.address, page.bytes);
            let fault_in = move || process::fault_in(pid, address, bytes);
            let workers = &self.examinations.workers;
            // Nobody waits for it: the next sample finds the page.
            drop(workers.submit(Lane::Memory, memory_of(pid), PAGE_LIMIT, fault_in));
        }
        result
    }

    /// Acts on a process event.
    pub(super) fn on_event<O: Observer>(
        &mut self,
        event: &ProcessEvent,
        observer: &mut O,
    ) -> Result<()> {
        #[cfg(feature = "recorder")]
        recorder::event(event);
        if event.kind == ProcessEventKind::APPEARED {
            self.on_appeared(event.tgid, observer);
            return Ok(());
        }
        self.follow(event);
        let pid = event.tgid;
        match event.kind {
            ProcessEventKind::FORKED => {
                if !self.bpf.is_copy(pid, event.parent)? {
                    // Forked before the maps had the present state of its parent.
                    return self.begin(pid, Some(event.parent));
                }
                self.copy_program(pid, event.parent);
            }
            ProcessEventKind::EXECUTED => {
                self.forget_coverage(pid);
                self.forget_program(pid);
            }
            ProcessEventKind::EXITED => self.forget_program(pid),
            _ => {}
        }
        if event.kind == ProcessEventKind::EXITED {
            self.end_process(pid, observer);
        }
        match self.discovery.on_event(event) {
            Some(Step::Examine(examination)) => self.run_examination(examination),
            Some(Step::Copy(process)) => self.add_process(process, Origin::Forked, observer),
            None => Ok(()),
        }
    }

    /// Has all that is known of the program of a process hold for one that was forked from it.
    fn copy_program(&mut self, pid: u32, original: u32) {
        self.examinations.executables.add_forked(pid, original);
        self.process_locations.copy(pid, original);
        self.raise_sites.copy(pid, original);
        self.bpf.copy_allocator(pid, original);
        if !self.allocation_sites.copy(pid, original) {
            self.note_too_many_allocators(pid);
        }
        if self.unwind_tables.is_some() {
            self.bpf.share_mappings(pid, original);
        }
    }

    /// Forgets the program that a process has run.
    pub(super) fn forget_program(&mut self, pid: u32) {
        self.earlier.remove(&pid);
        self.process_locations.remove(pid);
        self.raise_sites.remove(pid);
        self.bpf.set_allocator(pid, None);
        self.allocation_sites.remove(pid);
        self.examinations.executables.remove_process(pid);
        if self.unwind_tables.is_some() {
            self.bpf.remove_mappings(pid);
        }
        let subjects = [Subject::process(pid), Subject::stacks(pid), memory_of(pid)];
        for subject in subjects {
            self.examinations.workers.release(&subject);
        }
    }

    /// Marks a process as ended. Those with which a capture of some processes begins stay until its end.
    pub(super) fn end_process<O: Observer>(&mut self, pid: u32, observer: &mut O) {
        if self.is_host || self.following.is_some() {
            observer.on_exit(pid);
            self.profiles
                .run(move |profiles| profiles.catalog.end_process(pid));
        }
    }

    /// Begins to examine a process.
    pub(super) fn begin(&mut self, pid: u32, parent: Option<u32>) -> Result<()> {
        match self.discovery.begin(pid, parent) {
            Some(examination) => self.run_examination(examination),
            None => Ok(()),
        }
    }

    /// Has a process examined on another thread.
    pub(super) fn run_examination(&mut self, examination: Examination) -> Result<()> {
        // Before anything is read: if the process executes another program meanwhile, the result is
        // void for the BPF programs, however late the event of it arrives.
        let program = self.bpf.program(examination.pid)?;
        self.running.begin(&self.examinations, examination, program);
        Ok(())
    }

    /// Takes over what examinations find until none is running, or until `deadline`.
    pub(super) async fn finish_examinations<O: Observer>(
        &mut self,
        deadline: Instant,
        observer: &mut O,
    ) -> Result<()> {
        let mut result = Ok(());
        while !self.running.is_empty() {
            match timeout_at(deadline.into(), self.running.next()).await {
                Ok(examined) => {
                    let accepted = self.accept(examined, observer);
                    if self.is_host {
                        warn_on_error(accepted);
                    } else {
                        result = result.and(accepted);
                    }
                }
                Err(_) => break,
            }
        }
        result
    }

    /// Distributes the result of an examination.
    pub(super) fn accept<O: Observer>(
        &mut self,
        examined: Examined,
        observer: &mut O,
    ) -> Result<()> {
        let Examined {
            examination,
            program,
            result,
        } = examined;
        let pid = examination.pid;
        let result = match result {
            Ok(result) => result,
            Err(failure) => {
                debug!("process {pid} is not examined: {failure}");
                self.discovery.forget(&examination);
                return Ok(());
            }
        };
        let validity = self.discovery.end(&examination, &result);
        let is_earlier = self.earlier.remove(&pid);
        // A process that has exited keeps its name.
        let Ok(finding) = result else {
            return Ok(());
        };
        match validity {
            Validity::Present => {
                if is_earlier {
                    self.bpf.add_process(pid, None, Children::ALL)?;
                }
                self.bpf.set_program(pid, program)?;
                self.apply(finding, observer)?;
                for heir in self.discovery.inherit(&examination) {
                    self.inherit(heir, pid, observer)?;
                }
                self.retry_stacks();
                Ok(())
            }
            Validity::Past => {
                self.note_interpreter(&finding);
                let origin = Origin::Examined(finding.metadata.as_ref());
                observer.on_process(&finding.process, origin);
                let process = finding.process;
                self.profiles
                    .run(move |profiles| profiles.catalog.add_process(process));
                self.end_process(pid, observer);
                Ok(())
            }
            Validity::Void => Ok(()),
        }
    }

    /// Distributes what was found out about a process.
    fn apply<O: Observer>(&mut self, finding: Finding, observer: &mut O) -> Result<()> {
        let pid = finding.process.pid;
        self.note_interpreter(&finding);
        if let Ok(interpreter) = &finding.interpreter {
            let python = InterpreterLocation {
                interpreters_head: interpreter.interpreters_head,
                gil_holder: interpreter.gil_holder.filter(|_| self.gil),
                thread_pointer_distance: interpreter.thread_pointer_distance,
                layout: interpreter.layout,
                tasks: interpreter.running_task(),
            };
            let tasks = TaskLocation::of(interpreter);
            self.cover_tasks(&finding.process, tasks.as_ref().err());
            let location = ProcessLocation {
                gil: interpreter.gil,
                tasks: tasks.ok(),
            };
            self.process_locations.set(pid, location);
            if self.kinds.iter().any(|kind| kind.is_about_exceptions()) {
                self.add_raise_site(&finding.process, interpreter);
            }
            if self.kinds.iter().any(|kind| kind.is_about_allocations()) {
                self.add_allocation_sites(&finding.process, interpreter);
            }
            match self.bpf.update_process(pid, &python) {
                Ok(()) => {}
                // All else that was found out about it holds.
                Err(error @ bpf::Error::TooManyLayouts) => self.leave_out_layout(pid, &error),
                Err(error) => return Err(error.into()),
            }
        }
        let executables = &self.examinations.executables;
        if let Some(mapped) = &finding.mapped {
            executables.set_process(pid, mapped);
        }
        #[cfg(feature = "recorder")]
        recorder::process(&finding.process, Some(&finding.opened), executables);
        if let (Some(tables), Some(mapped)) = (&mut self.unwind_tables, &finding.mapped) {
            tables.add_process(&mut self.bpf, executables, pid, mapped)?;
        }
        let origin = Origin::Examined(finding.metadata.as_ref());
        self.add_process(finding.process, origin, observer)
    }

    /// Puts what was found out about a process to use for one that was forked from it meanwhile.
    fn inherit<O: Observer>(
        &mut self,
        heir: profile::Process,
        examined: u32,
        observer: &mut O,
    ) -> Result<()> {
        if !self.bpf.copy_process(heir.pid, examined)? {
            return Ok(());
        }
        self.copy_program(heir.pid, examined);
        self.add_process(heir, Origin::Forked, observer)
    }

    /// Counts a process whose layout finds no room.
    fn leave_out_layout(&mut self, pid: u32, error: &bpf::Error) {
        if self.layouts_left_out == 0 {
            warn!("process {pid} has no Python frames: {error}");
        }
        self.layouts_left_out += 1;
    }

    /// Adds a process to profiles, and excludes it from sampling if its observer says so.
    fn add_process<O: Observer>(
        &mut self,
        process: profile::Process,
        origin: Origin,
        observer: &mut O,
    ) -> Result<()> {
        let pid = process.pid;
        #[cfg(feature = "recorder")]
        if matches!(origin, Origin::Forked) {
            recorder::process(&process, None, &self.examinations.executables);
        }
        let exclude = observer.on_process(&process, origin);
        self.profiles
            .run(move |profiles| profiles.catalog.add_process(process));
        if let Some(exclude) = exclude {
            self.bpf.set_excluded(pid, exclude)?;
        }
        Ok(())
    }

    /// Adds the processes that a capture is of.
    pub(super) fn add_targets<O: Observer>(
        &mut self,
        found: Vec<Finding>,
        children: bool,
        observer: &mut O,
    ) -> Result<()> {
        let pids: Vec<u32> = found.iter().map(|one| one.process.pid).collect();
        for finding in found {
            let pid = finding.process.pid;
            let with_children = match &self.following {
                Some(following) => following.children_of(pid),
                None => Children::all_if(children),
            };
            self.bpf.add_process(pid, None, with_children)?;
            self.discovery.add(&finding);
            self.apply(finding, observer)?;
        }
        if children {
            // The BPF programs add those that start from now on.
            let started = process::descendants(&pids).into_iter();
            for descendant in started.filter(|one| !pids.contains(&one.pid)) {
                self.add_descendant(descendant)?;
            }
        }
        Ok(())
    }

    /// Adds the process that a capture is of and that has not run its program yet.
    pub(super) fn add_unstarted(&mut self, pid: u32, children: bool) -> Result<()> {
        self.bpf
            .add_process(pid, None, Children::all_if(children))?;
        self.discovery.add_unstarted(pid);
        Ok(())
    }

    /// Adds the process that stands for the threads of the kernel.
    pub(super) fn add_kernel_threads<O: Observer>(&mut self, observer: &mut O) -> Result<()> {
        self.bpf.add_process(KERNEL_THREADS, None, Children::NONE)?;
        let process = Profiles::kernel_threads();
        self.add_process(process, Origin::Examined(None), observer)
    }

    /// Adds a process that was started before the session.
    pub(super) fn add_descendant(&mut self, descendant: Descendant) -> Result<()> {
        self.earlier.insert(descendant.pid);
        self.begin(descendant.pid, Some(descendant.parent))
    }
}

/// The memory of a process, for the worker threads.
fn memory_of(pid: u32) -> Subject {
    Subject::new(("memory", pid), format!("the memory of process {pid}"))
}
