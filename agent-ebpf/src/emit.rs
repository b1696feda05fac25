//! Sending records to the agent.

use agent_common::{
    counter::Counter,
    native::Registers,
    record::{
        AbsentPage, EndedWait, GonePage, Header, LockRelease, MemoryType, MovedMemory, NewPage,
        ProcessEvent, ProcessEventKind, ProfileKind, Raise, RecordKind, Sample, StartedWait,
        WaitReason, WantedTable,
    },
};
use aya_ebpf::{
    bindings::{BPF_RB_FORCE_WAKEUP, BPF_RB_NO_WAKEUP},
    helpers::generated::bpf_ktime_get_ns,
};

use crate::{
    current,
    maps::{RECORDS, WHOLE_HOST, count},
    registers,
    task::Task,
    values::{SampledStacks, Sampler},
};

/// Unread bytes from which on the agent is woken; below it polls.
const WAKE_BYTES: u64 = 256 << 10;

/// Bytes that a processor sends before it checks again how many are unread: the positions in the
/// ring buffer are what all processors write to.
const CHECK_BYTES: u32 = 4 << 10;

/// Least time between two wake-ups by one processor: each costs more than a sample.
const WAKE_NS: u64 = 10_000_000;

/// `BPF_RB_AVAIL_DATA`.
const UNREAD_BYTES: u64 = 0;

/// Sends the `bytes` bytes at `record`; [`false`] when the ring buffer is full.
///
/// # Safety
///
/// `record` must be readable for `bytes` bytes, which the verifier must see.
#[inline(always)]
pub(crate) unsafe fn send(record: *const u8, bytes: usize) -> bool {
    sent(bytes as u32);
    // SAFETY: the caller's.
    let record = unsafe { core::slice::from_raw_parts(record, bytes) };
    RECORDS
        .output::<[u8]>(record, u64::from(BPF_RB_NO_WAKEUP))
        .is_ok()
}

/// Sends the sample with its stacks.
#[inline(always)]
pub(crate) fn sample(stacks: &SampledStacks) {
    let Some(sampler) = current::sampler() else {
        return;
    };
    let sample = finished(sampler, stacks, RecordKind::SAMPLE, size_of::<Sample>());
    sent(size_of::<Sample>() as u32);
    if RECORDS.output::<Sample>(sample, wake_flag()).is_err() {
        count(Counter::LOST_SAMPLES);
    }
}

/// Sends the sample of a thread that ends the wait of another one, with its stacks. It does not wake the agent: there may
/// be many of them.
#[inline(always)]
pub(crate) fn lock_release(stacks: &SampledStacks) {
    let Some(sampler) = current::sampler() else {
        return;
    };
    let of = sampler.wait_end.get();
    let bytes = size_of::<LockRelease>();
    let release = LockRelease {
        sample: finished(sampler, stacks, RecordKind::LOCK_RELEASE, bytes),
        switches: of.switches,
        start_time_ns: of.start_time_ns,
        waiter: of.waiter,
        reserved: 0,
    };
    sent(bytes as u32);
    let flags = u64::from(BPF_RB_NO_WAKEUP);
    if RECORDS.output::<LockRelease>(release, flags).is_err() {
        count(Counter::LOST_SAMPLES);
    }
}

/// Sends the sample of a thread that leaves its processor, with its stacks. It does not wake the agent: that would be another
/// context switch.
#[inline(always)]
pub(crate) fn started_wait(stacks: &SampledStacks, gil_holder: u64) {
    const BYTES: usize = size_of::<StartedWait>();
    let (Some(sampler), Some(record)) = (current::sampler(), current::started_wait()) else {
        return;
    };
    record.sample = finished(sampler, stacks, RecordKind::STARTED_WAIT, BYTES);
    record.gil_holder = gil_holder;
    record.start_time_ns = Task::current().start_time();
    record.thread_id = sampler.thread_id.get();
    record.state = current::switches().map_or(0, |switches| switches.state);
    record.reserved = 0;
    if !registers::read(&mut record.registers) {
        record.registers = Registers::ZERO;
    }
    // SAFETY: the record is as long as it says.
    if !unsafe { send((&raw const *record).cast(), BYTES) } {
        count(Counter::LOST_WAITS);
    }
}

/// Sends that a sampled wait is over; as [`started_wait`].
#[inline(always)]
pub(crate) fn ended_wait(tid: u32, left_ns: u64, wait_ns: u64, delay_ns: u64) {
    const BYTES: usize = size_of::<EndedWait>();
    let ended = EndedWait {
        header: Header {
            kind: RecordKind::ENDED_WAIT,
            reserved: 0,
            bytes: BYTES as u32,
        },
        left_ns,
        wait_ns,
        delay_ns,
        tid,
        reserved: 0,
    };
    sent(BYTES as u32);
    let flags = u64::from(BPF_RB_NO_WAKEUP);
    if RECORDS.output::<EndedWait>(ended, flags).is_err() {
        count(Counter::LOST_WAITS);
    }
}

/// Sends the sample of a thread that raises an exception, with its stacks.
#[inline(always)]
pub(crate) fn raise(stacks: &SampledStacks) {
    let Some(sampler) = current::sampler() else {
        return;
    };
    let bytes = size_of::<Raise>();
    let raise = Raise {
        sample: finished(sampler, stacks, RecordKind::RAISE, bytes),
        exception: sampler.exception.exception,
    };
    sent(bytes as u32);
    if RECORDS.output::<Raise>(raise, wake_flag()).is_err() {
        count(Counter::LOST_SAMPLES);
    }
}

/// Sends the sample of a thread that makes its process grow, with its stacks, and where the memory is.
#[inline(always)]
pub(crate) fn new_page(stacks: &SampledStacks) {
    let Some(sampler) = current::sampler() else {
        return;
    };
    let bytes = size_of::<NewPage>();
    let page = NewPage {
        sample: finished(sampler, stacks, RecordKind::NEW_PAGE, bytes),
        address: sampler.new_page.get(),
    };
    sent(bytes as u32);
    // So that it is looked at before it is given back.
    if RECORDS.output::<NewPage>(page, urgent()).is_err() {
        count(Counter::LOST_SAMPLES);
    }
}

/// Sends that a page by which a process had grown is gone.
#[inline(always)]
pub(crate) fn gone_page(address: u64, tgid: u32) {
    let gone = GonePage {
        header: Header {
            kind: RecordKind::GONE_PAGE,
            reserved: 0,
            bytes: size_of::<GonePage>() as u32,
        },
        address,
        tgid,
        reserved: 0,
    };
    sent(size_of::<GonePage>() as u32);
    // If there is no room, the page counts as long as the one at its address does.
    let _ = RECORDS.output::<GonePage>(gone, u64::from(BPF_RB_NO_WAKEUP));
}

/// Sends that memory of a process has been moved; [`false`] when the ring buffer is full.
#[inline(always)]
pub(crate) fn moved_memory(tgid: u32, from: u64, to: u64, bytes: u64) -> bool {
    let moved = MovedMemory {
        header: Header {
            kind: RecordKind::MOVED_MEMORY,
            reserved: 0,
            bytes: size_of::<MovedMemory>() as u32,
        },
        from,
        to,
        bytes,
        tgid,
        reserved: 0,
    };
    sent(size_of::<MovedMemory>() as u32);
    // Until it is known, the pages seem to be gone.
    RECORDS.output::<MovedMemory>(moved, urgent()).is_ok()
}

/// The sample with its stacks.
#[inline(always)]
fn finished(sampler: &Sampler, stacks: &SampledStacks, kind: RecordKind, bytes: usize) -> Sample {
    Sample {
        header: Header {
            kind,
            reserved: 0,
            bytes: bytes as u32,
        },
        time_ns: sampler.time_ns.get(),
        stack: stacks.stack,
        native_stack: stacks.native_stack,
        tgid: sampler.tgid.get(),
        tid: sampler.tid.get(),
        value: sampler.value.get(),
        count: sampler.count.get(),
        kind: ProfileKind(sampler.kind.get() as u16),
        python_status: stacks.status,
        holds_gil: u8::from(sampler.position.holds_gil()),
        collects_garbage: u8::from(sampler.position.collects_garbage()),
        native_status: stacks.native_status,
        wait: WaitReason::NONE,
        memory: MemoryType(sampler.memory.get() as u16),
        task: sampler.task.task,
    }
}

/// Reports the page that was not resident, if there was one: until the agent has loaded the page, more
/// samples may need it.
#[inline(always)]
pub(crate) fn absent_page() {
    let Some(sampler) = current::sampler() else {
        return;
    };
    let address = sampler.last_fault.address();
    if address.is_null() {
        return;
    }
    count(Counter::ABSENT_PAGES);
    let page = AbsentPage {
        header: Header {
            kind: RecordKind::ABSENT_PAGE,
            reserved: 0,
            bytes: size_of::<AbsentPage>() as u32,
        },
        address: address.0,
        tgid: sampler.tgid.get(),
        bytes: sampler.last_fault.bytes(),
    };
    // If there is no room, the next sample that needs the page reports it.
    let _ = RECORDS.output::<AbsentPage>(page, urgent());
}

/// Requests the unwind table of an executable file that the process `tgid` has mapped; [`false`] when
/// the ring buffer is full.
#[inline(always)]
pub(crate) fn wanted_table(executable: u32, tgid: u32) -> bool {
    let wanted = WantedTable {
        header: Header {
            kind: RecordKind::WANTED_TABLE,
            reserved: 0,
            bytes: size_of::<WantedTable>() as u32,
        },
        executable,
        tgid,
    };
    RECORDS.output::<WantedTable>(wanted, urgent()).is_ok()
}

/// Whether less than so much is unread.
#[inline(always)]
pub(crate) fn has_room(most_unread: u64) -> bool {
    RECORDS.query(UNREAD_BYTES) < most_unread
}

/// Sends a record of which `fill` makes all but the header, in the ring buffer itself; [`false`] when that is full, or
/// `fill` returns it.
#[inline(always)]
pub(crate) fn make<T: 'static>(
    kind: RecordKind,
    fill: impl FnOnce(*mut T, Header) -> bool,
) -> bool {
    let Some(mut record) = RECORDS.reserve::<T>(0) else {
        return false;
    };
    let header = Header {
        kind,
        reserved: 0,
        bytes: size_of::<T>() as u32,
    };
    if !fill(record.as_mut_ptr(), header) {
        record.discard(u64::from(BPF_RB_NO_WAKEUP));
        return false;
    }
    record.submit(u64::from(BPF_RB_NO_WAKEUP));
    sent(size_of::<T>() as u32);
    true
}

/// Counts bytes that this processor sends.
#[inline(always)]
fn sent(bytes: u32) {
    if let Some(wakes) = current::wakes() {
        wakes.unchecked_bytes = wakes.unchecked_bytes.wrapping_add(bytes);
    }
}

/// The flag of a record for which the agent is woken, now or at the next sample on any processor: what a
/// process does must not wake it as often as it likes.
#[inline(always)]
fn urgent() -> u64 {
    current::set_urgent(true);
    wake_flag()
}

/// The flag that wakes the agent if much is unread, or something urgent.
#[inline(always)]
fn wake_flag() -> u64 {
    let wake = if is_wake_due() {
        BPF_RB_FORCE_WAKEUP
    } else {
        BPF_RB_NO_WAKEUP
    };
    u64::from(wake)
}

#[inline(always)]
fn is_wake_due() -> bool {
    let Some(wakes) = current::wakes() else {
        return true;
    };
    if wakes.unchecked_bytes >= CHECK_BYTES {
        wakes.unchecked_bytes = 0;
        if RECORDS.query(UNREAD_BYTES) >= WAKE_BYTES {
            current::set_urgent(true);
        }
    }
    if !current::is_urgent() {
        return false;
    }
    // SAFETY: the helper takes no arguments.
    let now_ns = unsafe { bpf_ktime_get_ns() };
    let is_due = now_ns.wrapping_sub(wakes.woken_ns) >= WAKE_NS;
    if is_due {
        wakes.woken_ns = now_ns;
        current::set_urgent(false);
    }
    is_due
}

/// Sends an event of a process; [`false`] when the ring buffer is full. It wakes the agent, which has
/// to inspect the process before its next samples; not on a whole host, where most programs end before
/// they are sampled.
#[inline(always)]
pub(crate) fn process_event(kind: ProcessEventKind, tgid: u32, parent: u32) -> bool {
    let event = ProcessEvent {
        header: Header {
            kind: RecordKind::PROCESS_EVENT,
            reserved: 0,
            bytes: size_of::<ProcessEvent>() as u32,
        },
        // SAFETY: the helper takes no arguments.
        time_ns: unsafe { bpf_ktime_get_ns() },
        tgid,
        parent,
        kind,
        reserved: 0,
    };
    sent(size_of::<ProcessEvent>() as u32);
    let wake = if WHOLE_HOST.load() == 0 && kind != ProcessEventKind::MAPPED {
        u64::from(BPF_RB_FORCE_WAKEUP)
    } else if kind == ProcessEventKind::MAPPED {
        urgent()
    } else {
        wake_flag()
    };
    RECORDS.output::<ProcessEvent>(event, wake).is_ok()
}
