//! Bounds the free memory that glibc's allocator retains.
//!
//! Symbols and unwind tables are built by short-lived threads from large, short-lived buffers; glibc
//! has an arena per thread and returns little by itself: a third of the agent's memory.

/// Makes all threads share one arena. Call it before the first other thread starts.
pub fn limit_arenas() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes two integers; no other thread allocates yet.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Returns free memory to the kernel.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes an integer and may be called at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}
