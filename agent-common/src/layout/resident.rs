//! Where the kernel counts the resident pages of a process, from its BTF.

/// Most bytes from the counter of one type of memory to that of the next.
pub const MAX_COUNTER_DISTANCE: u32 = 63;

/// The same from that of the first of four types to the end of that of the last one; a power of two.
pub const MAX_COUNTER_BYTES: u32 = 256;
const _: () = assert!(4 * MAX_COUNTER_DISTANCE <= MAX_COUNTER_BYTES);

/// Where the counters of resident pages are. Before Linux 6.2 each thread counts what it adds, until
/// that goes to the process; since then each processor does. Offsets and distances in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResidentLayout {
    /// The counter of the first type of memory in `mm_struct`, 64 bits; 0 where it is not known.
    pub counters: u32,
    /// From the counter of one type to that of the next.
    pub distance: u32,
    /// What a thread has counted for the first type in `task_struct`, 32 bits each side by side; 0 where
    /// processors count.
    pub of_thread: u32,
    /// From the counter of a process to the address of what the processors have counted, 32 bits in
    /// the memory of each.
    pub of_processors: u32,
    /// `bpf_array.pptrs`, addresses of the values of a map with one of its own for each processor.
    pub map_values: u32,
    /// Bytes of a page.
    pub page_bytes: u32,
}
