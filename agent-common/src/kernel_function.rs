//! Functions of the kernel that BPF programs call (kfuncs).
//!
//! The kernel knows them by the numbers of their types, which differ from kernel to kernel, and aya's loader does not
//! relocate them. The programs call helpers whose numbers no kernel has; where the kernel has the functions the agent
//! puts their numbers into the calls before it loads the programs.

/// The number of the first one as a helper. The kernel's own helpers have numbers of three digits.
const FIRST_HELPER: u32 = 0x6b66_0000;

/// A function of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum KernelFunction {
    /// `bpf_task_from_pid`, Linux 6.2 and later: a task by its id in the initial PID namespace.
    TaskFromPid,
    /// `bpf_task_release`, which gives it back.
    TaskRelease,
    /// `bpf_iter_num_new`, Linux 6.4 and later: begins a loop over numbers.
    NumbersNew,
    /// `bpf_iter_num_next`.
    NumbersNext,
    /// `bpf_iter_num_destroy`.
    NumbersDestroy,
    /// `bpf_iter_task_new`, Linux 6.7 and later: begins a loop over tasks.
    TasksNew,
    /// `bpf_iter_task_next`.
    TasksNext,
    /// `bpf_iter_task_destroy`.
    TasksDestroy,
}

impl KernelFunction {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::TaskFromPid,
        Self::TaskRelease,
        Self::NumbersNew,
        Self::NumbersNext,
        Self::NumbersDestroy,
        Self::TasksNew,
        Self::TasksNext,
        Self::TasksDestroy,
    ];

    /// Its name in the kernel.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TaskFromPid => "bpf_task_from_pid",
            Self::TaskRelease => "bpf_task_release",
            Self::NumbersNew => "bpf_iter_num_new",
            Self::NumbersNext => "bpf_iter_num_next",
            Self::NumbersDestroy => "bpf_iter_num_destroy",
            Self::TasksNew => "bpf_iter_task_new",
            Self::TasksNext => "bpf_iter_task_next",
            Self::TasksDestroy => "bpf_iter_task_destroy",
        }
    }

    /// The number of the helper that programs call instead.
    #[must_use]
    pub const fn helper(self) -> u32 {
        FIRST_HELPER + self as u32
    }
}
