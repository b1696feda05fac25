//! Clocks that are on for a moment: each samples the thread that runs on a processor just now.
//!
//! A pass over the threads finds out that a thread runs, not where. The clock that samples CPU time tells, but not of a
//! thread that lives for less than its period: it often has no sample. So another clock is turned on where a pass has
//! seen threads run. It ticks every ten microseconds; of its first ticks the BPF program takes one.
//!
//! Invariants: a clock is off when [`PassClocks::sample`] returns; the kernel is never asked to turn it off by itself
//! after some ticks (`PERF_EVENT_IOC_REFRESH`): Linux 6.16 and 6.17 hang then
//! (<https://git.kernel.org/torvalds/c/eb3182ef0405>), and on a processor that rests those ticks do not count.

use std::{
    collections::HashMap,
    hint, io,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd},
    time::{Duration, Instant},
};

use agent_common::limits::AT_PASS_PERIOD_NS;
use aya::{
    Ebpf,
    programs::{PerfEvent, ProgramFd},
};
use perf_event_open_sys::{
    bindings::{
        PERF_COUNT_SW_CPU_CLOCK, PERF_FLAG_FD_CLOEXEC, PERF_TYPE_SOFTWARE, perf_event_attr,
    },
    ioctls, perf_event_open,
};
use tracing::debug;

use super::rights::with_sys_admin;

/// The program, which also has the samples of CPU time.
const PROGRAM: &str = "on_cpu";

/// How long a clock is on at least: the kernel lets it tick after ten microseconds, and the interrupt takes some.
const ON: Duration = Duration::from_micros(25);

/// Clocks that are on at a time: turning one on or off takes some microseconds, in which the others tick.
const AT_ONCE: usize = 8;

/// Time after which a clock is opened again: the kernel has removed it if its processor was offline meanwhile, or may
/// have refused it for a reason that is gone.
const REOPEN: Duration = Duration::from_secs(60);

/// The clocks of the processors where threads were seen running.
pub struct PassClocks {
    program: ProgramFd,
    clocks: HashMap<u32, Clock>,
}

struct Clock {
    /// [`None`] where the kernel has refused it.
    event: Option<OwnedFd>,
    opened: Instant,
}

impl PassClocks {
    /// [`None`] where the program is not loaded.
    pub(super) fn of(object: &Ebpf) -> Option<Self> {
        let program: &PerfEvent = object.program(PROGRAM)?.try_into().ok()?;
        Some(Self {
            program: program.fd().ok()?.try_clone().ok()?,
            clocks: HashMap::new(),
        })
    }

    /// Samples the threads that run on these processors, where the kernel allows that.
    pub fn sample(&mut self, processors: &[u32]) {
        for processors in processors.chunks(AT_ONCE) {
            for &processor in processors {
                self.open(processor);
            }
            let clocks = processors.iter().filter_map(|it| self.clocks.get(it));
            let on: Vec<_> = clocks.filter_map(turn_on).collect();
            let since = Instant::now();
            while !on.is_empty() && since.elapsed() < ON {
                hint::spin_loop();
            }
        }
    }

    /// Opens the clock of a processor, if that is due.
    fn open(&mut self, processor: u32) {
        let clock = self.clocks.get(&processor);
        if clock.is_some_and(|clock| clock.opened.elapsed() < REOPEN) {
            return;
        }
        let event = open(self.program.as_fd(), processor);
        if let Err(error) = &event {
            debug!("no clock for passes on processor {processor}: {error}");
        }
        let clock = Clock {
            event: event.ok(),
            opened: Instant::now(),
        };
        self.clocks.insert(processor, clock);
    }
}

/// A clock that is on until this is dropped.
struct On<'a>(&'a OwnedFd);

impl Drop for On<'_> {
    fn drop(&mut self) {
        // SAFETY: it is open, and the call touches no memory.
        unsafe { ioctls::DISABLE(self.0.as_raw_fd(), 0) };
    }
}

/// Turns a clock on; [`None`] where there is none, or its processor is offline.
fn turn_on(clock: &Clock) -> Option<On<'_>> {
    let event = clock.event.as_ref()?;
    // SAFETY: as above.
    (unsafe { ioctls::ENABLE(event.as_raw_fd(), 0) } == 0).then_some(On(event))
}

/// Opens a clock, which is off.
fn open(program: BorrowedFd<'_>, processor: u32) -> io::Result<OwnedFd> {
    let mut attributes = perf_event_attr {
        type_: PERF_TYPE_SOFTWARE,
        size: size_of::<perf_event_attr>()
            .try_into()
            .map_err(io::Error::other)?,
        config: PERF_COUNT_SW_CPU_CLOCK.into(),
        ..perf_event_attr::default()
    };
    attributes.__bindgen_anon_1.sample_period = AT_PASS_PERIOD_NS;
    attributes.set_disabled(1);
    let processor = processor.try_into().map_err(io::Error::other)?;
    let flags = PERF_FLAG_FD_CLOEXEC.into();
    // SAFETY: the attributes live longer than the call.
    let event = with_sys_admin(|| unsafe {
        perf_event_open(&raw mut attributes, -1, processor, -1, flags)
    });
    if event < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was opened just now.
    let event = unsafe { OwnedFd::from_raw_fd(event) };
    let program = program.as_raw_fd().try_into().map_err(io::Error::other)?;
    // SAFETY: both are open, and the call touches no memory.
    if unsafe { ioctls::SET_BPF(event.as_raw_fd(), program) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(event)
}
