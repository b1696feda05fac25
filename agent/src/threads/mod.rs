//! The threads of profiled processes: what each of them does or waits for.
//!
//! Invariant: what is known of a thread was read of another process and is untrusted.

pub mod reason;
