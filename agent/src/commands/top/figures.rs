//! How busy the subject is, in figures.

/// How busy the subject is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Load {
    /// CPUs in use, and of these the garbage collection.
    pub(super) cpus: f64,
    pub(super) gc: f64,
    pub(super) samples_per_second: f64,
    /// Share of the time in which a thread had the GIL; [`None`] where there is none.
    pub(super) gil_held: Option<f64>,
    /// Threads that did not run; [`None`] where that was not looked at.
    pub(super) waiting: Option<Waiting>,
}

/// How many threads wait for the GIL, for a CPU and for something else, and how many are stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Waiting {
    pub(super) for_gil: f64,
    pub(super) for_cpu: f64,
    pub(super) otherwise: f64,
    pub(super) stopped: f64,
}
