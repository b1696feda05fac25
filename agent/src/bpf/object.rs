//! The object with the BPF programs: its maps as large, and its settings as what is profiled needs them.

use std::time::Duration;

use aya::{
    Ebpf,
    programs::ProgramType,
    sys::{BpfHelper, is_helper_supported},
};

use super::{
    btf::KernelBtf,
    error::Error,
    kernel_functions, loader, map_sizes,
    switches::{WaitClasses, waits_of_processor},
};
use crate::profile::{Kind, RecordedExceptions};

/// The object, as it was built.
pub(super) static OBJECT: &[u8] =
    aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/agent.bpf.o"));

/// Where the registers of a thread are in its kernel stack on kernels without
/// `bpf_task_pt_regs` (before Linux 5.15): a `pt_regs` at the end of 16 KiB, or of a page that is larger.
fn registers_in_stack() -> u32 {
    const REGISTERS_BYTES: u32 = if cfg!(target_arch = "aarch64") {
        336
    } else {
        168
    };
    let page_bytes = u32::try_from(rustix::param::page_size()).unwrap_or(0);
    page_bytes.max(16 << 10) - REGISTERS_BYTES
}

/// What the BPF programs are loaded with.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a setting of the programs"
)]
pub struct LoadOptions {
    /// What is sampled.
    pub kinds: Vec<&'static Kind>,
    /// Time between two samples of the clock of a CPU.
    pub period: Duration,
    /// Start value of the hashes of stacks and code objects.
    pub hash_seed: u64,
    /// Whether native and kernel frames are sampled.
    pub with_native: bool,
    /// Whether the stacks of threads are copied whose native frames cannot be walked to their end yet.
    pub with_stack_copies: bool,
    /// Whether every process is sampled that is not excluded, not only those that were added.
    pub whole_host: bool,
    /// Whether there are events of programs that other processes execute.
    pub with_appeared: bool,
    /// Whether there are passes over all threads.
    pub visits: Visits,
    /// Whether programs loop over the threads, where the kernel lets them: a pass takes about half
    /// of the time, and the start 50 ms longer, in which the kernel verifies the programs.
    pub with_loops: bool,
    /// Whether it is recorded who ends waits for locks.
    pub lock_releases: bool,
    /// What system calls wait for, if context switches are traced.
    pub switches: Option<Box<WaitClasses>>,
    /// Which exceptions are recorded.
    pub exceptions: RecordedExceptions,
}

/// Whether there are passes over all threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visits {
    /// No.
    None,
    /// Of the threads of all processes that are sampled.
    OfAll,
    /// Of those of one process.
    OfProcess(u32),
}

/// What the programs have to know about the kernel, of which some are attached to these functions.
///
/// # Errors
///
/// When its types cannot be read.
pub(super) fn kernel_btf(functions: &[&'static str]) -> Result<KernelBtf, Error> {
    let mut btf = KernelBtf::read(functions)?;
    if !has_task_pt_regs() {
        btf.layout.registers = registers_in_stack();
    }
    Ok(btf)
}

/// Makes the maps. No program is loaded yet.
///
/// # Errors
///
/// When the kernel refuses a map.
pub(super) fn load(options: &LoadOptions, btf: &KernelBtf) -> Result<Ebpf, Error> {
    let numbers = kernel_functions::numbers(&btf.functions);
    let linked = numbers.and_then(|numbers| kernel_functions::link(OBJECT, &numbers));
    let has = |is_of: fn(&Kind) -> bool| options.kinds.iter().any(|kind| is_of(kind));
    let pages = has(|kind| kind.pages().is_some());
    let has_probes = has(Kind::is_of_probe);
    let mut loader = loader::without_btf();
    map_sizes::set(
        &mut loader,
        options.whole_host,
        options.visits != Visits::None,
        options.lock_releases,
    );
    let with_switches = options.switches.is_some();
    map_sizes::set_switches(&mut loader, options.whole_host, with_switches);
    let growth = pages || has(Kind::is_growth);
    map_sizes::set_growth(&mut loader, options.whole_host, growth, pages);
    map_sizes::set_probes(
        &mut loader,
        has(Kind::is_about_exceptions),
        has(Kind::is_about_allocations),
    );
    let with_control_flow = options.exceptions == RecordedExceptions::All;
    let object = loader
        .override_global("WHOLE_HOST", &u32::from(options.whole_host), true)
        .override_global(aya_log::LEVEL, &log_level(), true)
        .override_global("HASH_SEED", &options.hash_seed, true)
        .override_global("WITH_APPEARED", &u32::from(options.with_appeared), true)
        .override_global("WITH_NATIVE", &u32::from(options.with_native), true)
        .override_global(
            "WITH_STACK_COPIES",
            &u32::from(options.with_stack_copies),
            true,
        )
        .override_global("WITH_CONTROL_FLOW", &u32::from(with_control_flow), true)
        .override_global("WITH_PAGES", &u32::from(pages), true)
        .override_global("WITH_PROBES", &u32::from(has_probes), true)
        .override_global("WITH_SWITCHES", &u32::from(with_switches), true)
        .override_global(
            "MAX_PROCESSOR_WAITS",
            &waits_of_processor(options.whole_host),
            true,
        )
        .override_global("KERNEL_LAYOUT", &btf.layout, true)
        .load(linked.as_deref().unwrap_or(OBJECT))?;
    Ok(object)
}

/// Whether the kernel has the helper `bpf_task_pt_regs`.
fn has_task_pt_regs() -> bool {
    let helper = BpfHelper::BPF_FUNC_task_pt_regs;
    is_helper_supported(ProgramType::PerfEvent, helper).unwrap_or(false)
}

/// The log level of the BPF programs, from the agent's own.
fn log_level() -> u8 {
    let level = if tracing::enabled!(tracing::Level::TRACE) {
        aya_log::Level::Trace
    } else if tracing::enabled!(tracing::Level::DEBUG) {
        aya_log::Level::Debug
    } else {
        aya_log::Level::Info
    };
    level.into()
}
