//! Threads for work on bytes that others control: files, memory and names of processes.
//!
//! ```text
//! pool ─┬─ lane         a queue and its threads, one lane per kind of work
//!       ├─ job          work, and its result when it has ended
//!       ├─ budget       bytes and time that one job may take
//!       ├─ pace         processor time that all jobs take in the long run
//!       └─ quarantine   subjects whose jobs took more
//! ```
//!
//! Besides there is [`StoppableThread`], for work that has a thread of its own.
//!
//! A job is about a [`Subject`], for instance a file. One that exceeds its budget fails and puts its
//! subject into quarantine. One that does not end, because the kernel never answers a read, is
//! abandoned: its thread is given up and replaced.
//!
//! Invariants: whoever waits for a job gets an answer within the job's time; the numbers of threads,
//! of waiting jobs and of abandoned threads are bounded.

mod budget;
mod failure;
mod job;
mod lane;
mod pace;
mod pool;
mod quarantine;
mod stoppable;
#[cfg(test)]
mod tests;

pub use self::{
    budget::{charge, overrun},
    failure::Failure,
    job::Pending,
    lane::Lane,
    pace::thread_cpu_time,
    pool::{Workers, WorkersStatus},
    quarantine::{Quarantined, Subject},
    stoppable::StoppableThread,
};
