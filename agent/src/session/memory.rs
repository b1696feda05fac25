//! Keeps the memory small that the allocator holds back.
//!
//! Symbols and unwind tables are made by threads that come and go and of pieces that are large and
//! short-lived; glibc keeps a heap for each thread and gives little back by itself, which made a
//! third of the agent's memory.

/// Lets all threads share one heap. To be called before there are others.
pub fn keep_memory_small() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes two numbers; no other thread allocates yet.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Gives what is free back to the kernel.
pub fn give_memory_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes a number, and may be called at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}
