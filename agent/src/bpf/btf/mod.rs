//! What the BPF programs need of the running kernel's types, from its BTF: offsets of fields, and the functions to which
//! they are attached.
//!
//! Invariant: the file, several megabytes, is read once, and no more of it is kept than what was asked for.

mod error;
mod functions;
mod types;

use std::{fs, path::Path};

use agent_common::layout::{KernelLayout, MAX_COUNTER_DISTANCE, ResidentLayout};

pub use self::error::Error;
pub(super) use self::error::VMLINUX;
use self::types::{FUNCTION, STRUCTURE, TYPEDEF, Types, Wanted};

/// The structures with the wanted fields.
const TASK: &str = "task_struct";
const MEMORY: &str = "mm_struct";
const SIGNAL: &str = "signal_struct";
const COUNTER: &str = "percpu_counter";
const MAP: &str = "bpf_array";

/// The type of the functions that the tracepoint `sched_switch` calls.
const SWITCH: &str = "btf_trace_sched_switch";

/// The kernel's BTF, as far as it is needed.
pub(super) struct KernelBtf {
    /// The offsets that the BPF programs need.
    pub(super) layout: KernelLayout,
    /// The types by which aya finds the wanted functions.
    pub(super) functions: aya::Btf,
}

impl KernelBtf {
    /// Reads it; programs are to be attached to these functions.
    ///
    /// # Errors
    ///
    /// [`Error`] when BTF cannot be read, or a structure or field has another name. A function that there is not is an
    /// error of aya when a program is loaded for it.
    pub(super) fn read(functions: &[&'static str]) -> Result<Self, Error> {
        let bytes = fs::read(Path::new(VMLINUX)).map_err(Error::Unreadable)?;
        let structures = [TASK, MEMORY, SIGNAL, COUNTER, MAP];
        let structures = structures.iter().map(|&name| (STRUCTURE, name));
        let functions = functions.iter().map(|&name| (FUNCTION, name));
        let wanted: Vec<Wanted> = structures
            .chain([(TYPEDEF, SWITCH)])
            .chain(functions)
            .collect();
        let types = Types::read(&bytes, &wanted).ok_or(Error::Malformed)?;
        Ok(Self {
            layout: kernel_layout(&types)?,
            functions: functions::of(&types).ok_or(Error::Malformed)?,
        })
    }
}

/// The offsets that the BPF programs need.
fn kernel_layout(btf: &Types<'_>) -> Result<KernelLayout, Error> {
    let task = |path| btf.offset(TASK, path);
    Ok(KernelLayout {
        thread_pointer: if cfg!(target_arch = "aarch64") {
            task(&["thread", "uw", "tp_value"])?
        } else {
            task(&["thread", "fsbase"])?
        },
        pid: task(&["pid"])?,
        tgid: task(&["tgid"])?,
        flags: task(&["flags"])?,
        switches: task(&["nvcsw"])?,
        memory: task(&["mm"])?,
        executable_pages: btf.offset(MEMORY, &["exec_vm"])?,
        signal: task(&["signal"])?,
        live_threads: btf.offset(SIGNAL, &["live"])?,
        stack: task(&["stack"])?,
        registers: 0,
        on_cpu: task(&["on_cpu"]).unwrap_or(0),
        processor: task(&["thread_info", "cpu"])
            .or_else(|_| task(&["cpu"]))
            .unwrap_or(0),
        state: task(&["__state"]).or_else(|_| task(&["state"]))?,
        start_time: task(&["start_time"])?,
        run_time: task(&["se", "sum_exec_runtime"])?,
        run_time_end: task(&["se", "exec_start"]).unwrap_or(0),
        migrations: task(&["se", "nr_migrations"]).unwrap_or(0),
        run_delay: task(&["sched_info", "run_delay"]).unwrap_or(0),
        earlier_run_time: task(&["se", "prev_sum_exec_runtime"]).unwrap_or(0),
        last_arrival: task(&["sched_info", "last_arrival"]).unwrap_or(0),
        last_queued: task(&["sched_info", "last_queued"]).unwrap_or(0),
        switch_state: btf.integer_argument(SWITCH),
        comm: task(&["comm"])?,
        resident: resident_layout(btf).unwrap_or_default(),
    })
}

/// Where the counters of resident pages are.
fn resident_layout(btf: &Types<'_>) -> Result<ResidentLayout, Error> {
    let page_bytes = u32::try_from(rustix::param::page_size()).unwrap_or_default();
    // Since Linux 6.2 an array of counters.
    let Ok(of_thread) = btf.offset(TASK, &["rss_stat", "count"]) else {
        let count = btf.offset(COUNTER, &["count"])?;
        let distance = btf.bytes(COUNTER)?;
        if distance > MAX_COUNTER_DISTANCE {
            // A kernel that is made to find errors in locks.
            return Ok(ResidentLayout::default());
        }
        return Ok(ResidentLayout {
            counters: btf.offset(MEMORY, &["rss_stat"])? + count,
            distance,
            of_thread: 0,
            of_processors: btf.offset(COUNTER, &["counters"])? - count,
            map_values: btf.offset(MAP, &["pptrs"])?,
            page_bytes,
        });
    };
    Ok(ResidentLayout {
        counters: btf.offset(MEMORY, &["rss_stat", "count"])?,
        distance: 8,
        of_thread,
        of_processors: 0,
        map_values: 0,
        page_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::{KernelBtf, VMLINUX};

    #[test]
    fn the_running_kernel_has_all_fields() {
        assert!(std::path::Path::new(VMLINUX).exists());
        let layout = KernelBtf::read(&[]).unwrap().layout;
        assert!(layout.thread_pointer > 0 && layout.executable_pages > 0);
        assert!(layout.switches > layout.tgid);
        assert!([0, 1, 3].contains(&layout.switch_state));
    }
}
