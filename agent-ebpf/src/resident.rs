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

use agent_common::{
    counter::Counter,
    layout::{MAX_COUNTER_BYTES, ResidentLayout},
    record::{MemoryType, pages_of_huge},
    volatile::masked,
};
use aya_ebpf::helpers::{
    bpf_get_current_pid_tgid,
    generated::{bpf_get_prandom_u32, bpf_get_smp_processor_id, bpf_probe_read_kernel},
};

use crate::{
    kernel_memory::read,
    maps::{
        COUNTED_PAGES, PROCESS_COUNTERS, PROCESS_PAGES, PROCESSES, PROCESSOR_MEMORY, add,
        kernel_offset,
    },
    task::Task,
    values::{CountedPages, KERNEL_TYPES, MEMORY_TYPES, ProcessCounters, ProcessPages},
};

/// The numbers of the kernel's types of memory (`MM_FILEPAGES`, `MM_ANONPAGES`, `MM_SHMEMPAGES`), and ours.
const TYPES: [(u32, MemoryType); MEMORY_TYPES] = [
    (0, MemoryType::FILE),
    (1, MemoryType::ANONYMOUS),
    (3, MemoryType::SHARED),
];

/// Set in the keys of what threads have counted.
const OF_THREAD: u64 = 1 << 63;

/// Samples that are due: how many, and of which type of memory; and whether memory was added at all, with or without
/// a sample. One number, so that none is no number that was never written, which Linux 5.10 refuses to read from the
/// stack.
#[derive(Clone, Copy)]
pub(crate) struct Due(u64);

impl Due {
    const NONE: Self = Self(0);

    /// Flags.
    const HAS_GROWN: u64 = 1 << 62;
    const IS_HUGE: u64 = 1 << 63;

    #[inline(always)]
    fn new(samples: u32, memory: MemoryType) -> Self {
        Self(u64::from(samples) << 16 | u64::from(memory.0))
    }

    /// The same of a fault that has changed the process by so many pages of each type.
    #[inline(always)]
    fn of_pages(self, pages: [i64; MEMORY_TYPES]) -> Self {
        let mut flags = 0;
        let page_bytes = kernel_offset(|layout| &layout.resident.page_bytes);
        let pages_of_huge = pages_of_huge(page_bytes.into()).cast_signed();
        for pages in pages {
            if pages > 0 {
                flags |= Self::HAS_GROWN;
            }
            if pages >= pages_of_huge {
                flags |= Self::IS_HUGE;
            }
        }
        Self(self.0 | flags)
    }

    #[inline(always)]
    pub(crate) fn samples(self) -> u32 {
        (self.0 >> 16) as u32
    }

    #[inline(always)]
    pub(crate) fn memory(self) -> MemoryType {
        MemoryType(self.0 as u16)
    }

    /// Whether the fault has added pages.
    #[inline(always)]
    pub(crate) fn has_grown(self) -> bool {
        self.0 & Self::HAS_GROWN != 0
    }

    /// Whether it has added a huge page.
    #[inline(always)]
    pub(crate) fn is_huge(self) -> bool {
        self.0 & Self::IS_HUGE != 0
    }
}

/// Reads the counters before the fault: what changed since the last one is not its doing.
#[inline(always)]
pub(crate) fn before_fault() {
    let Some(mut counters) = Counters::of_current() else {
        return;
    };
    let mut given_back = 0;
    for nth in 0..MEMORY_TYPES {
        let pages = counters.change(nth, Moment::BeforeFault);
        if pages < 0 {
            given_back += pages.unsigned_abs();
        }
    }
    if given_back != 0 {
        add(Counter::GIVEN_BACK_PAGES, given_back);
    }
}

/// Reads them after it; returns the samples that are due for what it has added. A fault that adds pages of two
/// types has its samples of the second one at the next fault.
#[inline(always)]
pub(crate) fn after_fault() -> Due {
    let Some(mut counters) = Counters::of_current() else {
        return Due::NONE;
    };
    // Not loops: the compiler has to know that the types are in the arrays.
    let file = counters.change(0, Moment::AfterFault);
    let anonymous = counters.change(1, Moment::AfterFault);
    let shared = counters.change(2, Moment::AfterFault);
    // Pages of files and shared memory of which the process has copies of its own now.
    let copied_file = replaced(file, anonymous);
    let copied_shared = replaced(shared, anonymous);
    if copied_file + copied_shared != 0 {
        add(Counter::GIVEN_BACK_PAGES, copied_file + copied_shared);
    }
    let mut due = counters.sample(0, file + copied_file.cast_signed(), Due::NONE);
    due = counters.sample(1, anonymous, due);
    due = counters.sample(2, shared + copied_shared.cast_signed(), due);
    due.of_pages([file, anonymous, shared])
}

/// What this processor or thread counts now of the current process, by the kernel's numbers of types.
#[inline(always)]
pub(crate) fn counted_here() -> [i32; KERNEL_TYPES] {
    let task = Task::current();
    if field(|layout| &layout.of_thread) != 0 {
        return task.counted_pages();
    }
    let counters = task
        .memory()
        .wrapping_add(field(|layout| &layout.counters).into());
    let address = |number: u32| {
        let pointer = offset(number).wrapping_add(field(|layout| &layout.of_processors));
        let name: u64 = read(counters.wrapping_add(pointer.into()));
        name.wrapping_add(processor_memory())
    };
    let [(file, _), (anonymous, _), (shared, _)] = TYPES;
    counts_at(&[address(file), address(anonymous), address(shared)])
}

/// Whether a fault before which this was counted has given the process more pages, not one in place of another: of the
/// same type, which changes no count, or of another one, which changes two.
#[inline(always)]
pub(crate) fn has_grown(before: [i32; KERNEL_TYPES], after: [i32; KERNEL_TYPES]) -> bool {
    let has_changed = |(number, _): (u32, MemoryType)| {
        let number = kernel_index(number);
        before[number] != after[number]
    };
    let [file, anonymous, shared] = TYPES;
    has_changed(anonymous) != (has_changed(file) || has_changed(shared))
}

/// How many of the pages by which a type has changed were replaced by anonymous ones.
#[inline(always)]
fn replaced(pages: i64, anonymous: i64) -> u64 {
    if pages >= 0 || anonymous <= 0 {
        return 0;
    }
    let (gone, new) = (pages.unsigned_abs(), anonymous.unsigned_abs());
    if gone < new { gone } else { new }
}

/// When the counters are read.
#[derive(Clone, Copy)]
enum Moment {
    BeforeFault,
    AfterFault,
}

/// The counters of the current process.
struct Counters {
    counted: &'static mut CountedPages,
    process: &'static mut ProcessPages,
    /// What this processor or thread counts now, by the kernel's numbers of types.
    here: [i32; KERNEL_TYPES],
    /// What has been counted for the process.
    totals: &'static ProcessCounters,
}

impl Counters {
    /// Those of a process that is profiled, where the kernel's are known.
    ///
    /// Where the process has another program now, or is seen for the first time, what there is already is no
    /// growth.
    #[inline(always)]
    fn of_current() -> Option<Self> {
        let counters = field(|layout| &layout.counters);
        if counters == 0 {
            return None;
        }
        let pid_tgid = bpf_get_current_pid_tgid();
        let tgid = (pid_tgid >> 32) as u32;
        let of_thread = field(|layout| &layout.of_thread);
        let key = if of_thread == 0 {
            // SAFETY: the helper takes no arguments.
            let processor = unsafe { bpf_get_smp_processor_id() };
            u64::from(processor) << 32 | u64::from(tgid)
        } else {
            OF_THREAD | u64::from(pid_tgid as u32)
        };
        let task = Task::current();
        let memory = task.memory();
        let first = memory.wrapping_add(counters.into());
        let counted = counted_pages(key, tgid)?;
        let process = process_pages(tgid)?;
        let totals = read_totals(first)?;
        // Memory that was freed may be that of another program now, or of another process with the id.
        let of_all = if of_thread == 0 {
            of_processors(totals, 0)
        } else {
            0
        };
        let is_new = counted.memory != memory || counted.of_all != of_all;
        if is_new {
            PROCESSES.get_ptr(tgid)?;
            counted.memory = memory;
            counted.of_all = of_all;
            if of_thread == 0 {
                counted.addresses = addresses(totals);
            }
        }
        let here = if of_thread == 0 {
            counts_at(&counted.addresses)
        } else {
            task.counted_pages()
        };
        if is_new {
            for (pages, (number, _)) in counted.pages.iter_mut().zip(TYPES) {
                *pages = here[kernel_index(number)].into();
            }
        }
        if process.memory != memory {
            process.memory = memory;
            for (pages, (number, _)) in process.pages.iter_mut().zip(TYPES) {
                *pages = total(totals, number);
            }
        }
        Some(Self {
            counted,
            process,
            here,
            totals,
        })
    }

    /// Samples the pages of the `nth` type that the fault has added, where no sample of another one is due.
    #[inline(always)]
    fn sample(&mut self, nth: usize, pages: i64, due: Due) -> Due {
        if pages == 0 {
            return due;
        }
        let page_bytes = field(|layout| &layout.page_bytes);
        let bytes = pages.unsigned_abs().wrapping_mul(page_bytes.into());
        let growth = &mut self.counted.growth[nth];
        if pages < 0 {
            growth.owe(bytes);
            return due;
        }
        if due.0 != 0 {
            growth.defer(bytes);
            return due;
        }
        // SAFETY: the helper takes no arguments.
        let random = unsafe { bpf_get_prandom_u32() };
        let samples = growth.add(bytes, random) as u32;
        if samples == 0 {
            return due;
        }
        let (_, memory) = TYPES[nth];
        Due::new(samples, memory)
    }

    /// By how many pages of the `nth` type the process has grown.
    ///
    /// The counter of the process is taken where it must be this processor's or thread's doing: it has shrunk, or after a
    /// fault that did not add to what is counted here. Else it is of a fault on another processor that has yet to be read
    /// there.
    #[inline(always)]
    fn change(&mut self, nth: usize, moment: Moment) -> i64 {
        let (number, _) = TYPES[nth];
        let counted = i64::from(self.here[kernel_index(number)]);
        let here = counted.wrapping_sub(self.counted.pages[nth]);
        self.counted.pages[nth] = counted;
        let accounted = self.process.pages[nth];
        let new = total(self.totals, number)
            .wrapping_sub(accounted)
            .cast_signed();
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
}

/// The addresses of what this processor counts for the types of the process with these counters.
#[inline(always)]
fn addresses(totals: &ProcessCounters) -> [u64; MEMORY_TYPES] {
    let mut addresses = [0; MEMORY_TYPES];
    for (address, (number, _)) in addresses.iter_mut().zip(TYPES) {
        *address = of_processors(totals, number).wrapping_add(processor_memory());
    }
    addresses
}

/// The address by which the kernel names what the processors count of a type.
#[inline(always)]
fn of_processors(totals: &ProcessCounters, number: u32) -> u64 {
    let pointer = offset(number).wrapping_add(field(|layout| &layout.of_processors));
    totals[masked(pointer / 8, MAX_COUNTER_BYTES / 8 - 1) as usize]
}

/// What is counted at these addresses. Since Linux 6.6 they are side by side.
#[inline(always)]
fn counts_at(addresses: &[u64; MEMORY_TYPES]) -> [i32; KERNEL_TYPES] {
    let first = addresses[0];
    let mut are_side_by_side = true;
    for (address, (number, _)) in addresses.iter().zip(TYPES) {
        are_side_by_side &= *address == first.wrapping_add(u64::from(number * 4));
    }
    if are_side_by_side {
        return read(first);
    }
    let mut counts = [0; KERNEL_TYPES];
    for (address, (number, _)) in addresses.iter().zip(TYPES) {
        counts[kernel_index(number)] = read(*address);
    }
    counts
}

/// Reads the counters of a process, the first of which is at `first`.
#[inline(always)]
fn read_totals(first: u64) -> Option<&'static ProcessCounters> {
    let totals = PROCESS_COUNTERS.get_ptr_mut(0)?;
    let last = offset(KERNEL_TYPES as u32 - 1).wrapping_add(field(|layout| &layout.of_processors));
    let bytes = masked(last + 8, MAX_COUNTER_BYTES - 1);
    // SAFETY: the value has room for all that the mask allows; the helper checks the address.
    unsafe { bpf_probe_read_kernel(totals.cast(), bytes, first as *const _) };
    // SAFETY: the value is this processor's own, and nothing interrupts the program to change it.
    Some(unsafe { &*totals })
}

/// The counter of a type.
#[inline(always)]
fn total(totals: &ProcessCounters, number: u32) -> u64 {
    totals[masked(offset(number) / 8, MAX_COUNTER_BYTES / 8 - 1) as usize]
}

/// The index of a type among the kernel's.
#[inline(always)]
fn kernel_index(number: u32) -> usize {
    masked(number, KERNEL_TYPES as u32 - 1) as usize
}

/// From the first counter to that of a type, in bytes.
#[inline(always)]
fn offset(number: u32) -> u32 {
    number.wrapping_mul(field(|layout| &layout.distance))
}

/// A field of the layout.
#[inline(always)]
fn field(of: impl FnOnce(&ResidentLayout) -> &u32) -> u32 {
    kernel_offset(|layout| of(&layout.resident))
}

/// What has been counted under a key, of a process that is profiled.
#[inline(always)]
fn counted_pages(key: u64, tgid: u32) -> Option<&'static mut CountedPages> {
    let mut counted = COUNTED_PAGES.get_ptr_mut(key);
    if counted.is_none() {
        PROCESSES.get_ptr(tgid)?;
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
        let name: u64 = read(map.wrapping_add(field(|layout| &layout.map_values).into()));
        slot.write_volatile(address.wrapping_sub(name));
        slot.read_volatile()
    }
}
