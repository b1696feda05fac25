//! By how many resident pages each page fault makes a process grow.
//!
//! The kernel keeps a counter of each type of memory for a process, and lets each processor (before Linux
//! 6.2: each thread) count a few pages on its own before they go there. What a fault has added is the
//! change of both since they were read last: before the fault is resolved and after it, on every fault. So
//! a huge page has all its bytes, and threads that grow at the same time do not get each other's.
//!
//! Invariant: the sum of all changes of a process is the change of its resident memory since it was first
//! read, or will be with the next ones. Two faults that make two processors hand over what they have counted in
//! the same microsecond may get each other's pages, as often in both directions.

use agent_common::{layout::ResidentLayout, record::MemoryType};
use aya_ebpf::helpers::{
    bpf_get_current_pid_tgid,
    generated::{bpf_get_prandom_u32, bpf_get_smp_processor_id},
};

use crate::{
    kernel_memory::read,
    maps::{COUNTED_PAGES, KERNEL_LAYOUT, PROCESS_PAGES, PROCESSES, PROCESSOR_MEMORY},
    task::Task,
    values::{CountedPages, MEMORY_TYPES, ProcessPages},
};

/// The numbers of the kernel's types of memory (`MM_FILEPAGES`, `MM_ANONPAGES`, `MM_SHMEMPAGES`), and ours.
const TYPES: [(u32, MemoryType); MEMORY_TYPES] = [
    (0, MemoryType::FILE),
    (1, MemoryType::ANONYMOUS),
    (3, MemoryType::SHARED),
];

/// Set in the keys of what threads have counted.
const OF_THREAD: u64 = 1 << 63;

/// Samples that are due: how many, and of which type of memory. One number, so that none is no number that
/// was never written, which Linux 5.10 refuses to read from the stack.
#[derive(Clone, Copy)]
pub(crate) struct Due(u64);

impl Due {
    const NONE: Self = Self(0);

    #[inline(always)]
    fn new(samples: u64, memory: MemoryType) -> Self {
        Self(samples << 16 | u64::from(memory.0))
    }

    #[inline(always)]
    pub(crate) fn samples(self) -> u32 {
        (self.0 >> 16) as u32
    }

    #[inline(always)]
    pub(crate) fn memory(self) -> MemoryType {
        MemoryType(self.0 as u16)
    }
}

/// Reads the counters before the fault: what changed since the last one is not its doing.
#[inline(always)]
pub(crate) fn before_fault() {
    if let Some(mut counters) = Counters::of_current() {
        for nth in 0..MEMORY_TYPES {
            counters.change(nth, Moment::BeforeFault);
        }
    }
}

/// Reads them after it; returns the samples that are due for what it has added. A fault that adds pages of two
/// types has its samples of the second one at the next fault.
#[inline(always)]
pub(crate) fn after_fault() -> Due {
    let mut due = Due::NONE;
    let Some(mut counters) = Counters::of_current() else {
        return due;
    };
    for (nth, (_, memory)) in TYPES.iter().enumerate() {
        let pages = counters.change(nth, Moment::AfterFault);
        let page_bytes = field(|layout| layout.page_bytes);
        let bytes = pages.unsigned_abs().wrapping_mul(page_bytes.into());
        let growth = &mut counters.counted.growth[nth];
        if pages < 0 {
            growth.owe(bytes);
        } else if pages > 0 && due.0 != 0 {
            growth.defer(bytes);
        } else if pages > 0 {
            // SAFETY: the helper takes no arguments.
            let random = unsafe { bpf_get_prandom_u32() };
            let samples = growth.add(bytes, random);
            if samples != 0 {
                due = Due::new(samples, *memory);
            }
        }
    }
    due
}

/// When the counters are read.
#[derive(Clone, Copy)]
enum Moment {
    BeforeFault,
    AfterFault,
}

/// The counters of the current process.
struct Counters {
    task: Task,
    /// The address of the process's memory.
    memory: u64,
    counted: &'static mut CountedPages,
    process: &'static mut ProcessPages,
}

impl Counters {
    /// Those of a process that is profiled, where the kernel's are known.
    #[inline(always)]
    fn of_current() -> Option<Self> {
        let pid_tgid = bpf_get_current_pid_tgid();
        let tgid = (pid_tgid >> 32) as u32;
        if field(|layout| layout.counters) == 0 || PROCESSES.get_ptr(tgid).is_none() {
            return None;
        }
        let key = if field(|layout| layout.of_thread) == 0 {
            // SAFETY: the helper takes no arguments.
            let processor = unsafe { bpf_get_smp_processor_id() };
            u64::from(processor) << 32 | u64::from(tgid)
        } else {
            OF_THREAD | u64::from(pid_tgid as u32)
        };
        let task = Task::current();
        let mut counters = Self {
            task,
            memory: task.memory(),
            counted: counted_pages(key)?,
            process: process_pages(tgid)?,
        };
        counters.begin();
        Some(counters)
    }

    /// Where the process has another program now, or is seen for the first time, what there is already is no
    /// growth.
    #[inline(always)]
    fn begin(&mut self) {
        if self.counted.memory != self.memory {
            self.counted.memory = self.memory;
            for (nth, (number, _)) in TYPES.iter().enumerate() {
                self.counted.pages[nth] = self.counted(*number);
            }
        }
        if self.process.memory != self.memory {
            self.process.memory = self.memory;
            for (nth, (number, _)) in TYPES.iter().enumerate() {
                self.process.pages[nth] = self.total(*number);
            }
        }
    }

    /// By how many pages of the `nth` type the process has grown.
    ///
    /// The counter of the process is taken where it must be this processor's or thread's doing: it has shrunk, or after a
    /// fault that did not add to what is counted here. Else it is of a fault on another processor that has yet to be read
    /// there.
    #[inline(always)]
    fn change(&mut self, nth: usize, moment: Moment) -> i64 {
        let (number, _) = TYPES[nth];
        let counted = self.counted(number);
        let here = counted.wrapping_sub(self.counted.pages[nth]);
        self.counted.pages[nth] = counted;
        let accounted = self.process.pages[nth];
        let new = self.total(number).wrapping_sub(accounted).cast_signed();
        let is_taken = match moment {
            Moment::BeforeFault => new < 0,
            Moment::AfterFault => new != 0 && here <= 0,
        };
        if !is_taken {
            return here;
        }
        self.process.pages[nth] = accounted.wrapping_add_signed(new);
        here.wrapping_add(new)
    }

    /// The address of the process's counter of a type.
    #[inline(always)]
    fn counter(&self, number: u32) -> u64 {
        let distance = number.wrapping_mul(field(|layout| layout.distance));
        let offset = distance.wrapping_add(field(|layout| layout.counters));
        self.memory.wrapping_add(offset.into())
    }

    /// What has been counted for the process.
    #[inline(always)]
    fn total(&self, number: u32) -> u64 {
        read(self.counter(number))
    }

    /// What this processor or thread has counted besides.
    #[inline(always)]
    fn counted(&self, number: u32) -> i64 {
        if field(|layout| layout.of_thread) != 0 {
            return self.task.counted_pages(number);
        }
        let pointer = self
            .counter(number)
            .wrapping_add(field(|layout| layout.of_processors).into());
        let address: u64 = read(pointer);
        read::<i32>(address.wrapping_add(processor_memory())).into()
    }
}

/// A field of the layout.
#[inline(always)]
fn field(of: impl FnOnce(&ResidentLayout) -> u32) -> u32 {
    of(&KERNEL_LAYOUT.load().resident)
}

/// What has been counted under a key.
#[inline(always)]
fn counted_pages(key: u64) -> Option<&'static mut CountedPages> {
    let mut counted = COUNTED_PAGES.get_ptr_mut(key);
    if counted.is_none() {
        // Without room it is tried again at the next fault.
        let _ = COUNTED_PAGES.insert(key, CountedPages::NEW, 0);
        counted = COUNTED_PAGES.get_ptr_mut(key);
    }
    // SAFETY: values of the map stay readable and writable while the program runs; this one is written on
    // this processor, or by this thread.
    Some(unsafe { &mut *counted? })
}

/// What has been counted for a process.
#[inline(always)]
fn process_pages(tgid: u32) -> Option<&'static mut ProcessPages> {
    let mut pages = PROCESS_PAGES.get_ptr_mut(tgid);
    if pages.is_none() {
        let _ = PROCESS_PAGES.insert(tgid, ProcessPages::NEW, 0);
        pages = PROCESS_PAGES.get_ptr_mut(tgid);
    }
    // SAFETY: values of the map stay readable and writable while the program runs; what other processors
    // write at the same time is about the same.
    Some(unsafe { &mut *pages? })
}

/// The distance of this processor's own memory from the addresses by which the kernel names what each
/// processor has one of. That of a map's value is known under both.
#[inline(always)]
fn processor_memory() -> u64 {
    let Some(slot) = PROCESSOR_MEMORY.get_ptr_mut(0) else {
        return 0;
    };
    // SAFETY: the value lives as long as the map, belongs to this processor, and nothing interrupts the
    // program to change it. What is read from it is a number for the verifier, not an address.
    unsafe {
        let known = slot.read_volatile();
        if known != 0 {
            return known;
        }
        slot.write_volatile((&raw const PROCESSOR_MEMORY) as u64);
        let map = slot.read_volatile();
        slot.write_volatile(slot as u64);
        let address = slot.read_volatile();
        let name: u64 = read(map.wrapping_add(field(|layout| layout.map_values).into()));
        slot.write_volatile(address.wrapping_sub(name));
        slot.read_volatile()
    }
}
