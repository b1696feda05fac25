use super::*;
use crate::{
    profile::fixtures::{PERIOD_NS, example_processes, example_profile, of_kind, with_waits},
    profile::kinds::{allocations, exceptions, page_faults, wall},
    profile::{FilteredOut, Losses, Process, Sample, StackId, Thread, ThreadIndex},
};

fn summary(profile: &Profile, width: usize) -> String {
    Summary::new(profile, EncodeOptions::default())
        .with_width(width)
        .to_string()
}

/// The summary with tables.
fn tables(profile: &Profile, width: usize) -> String {
    Summary::new(profile, EncodeOptions::default())
        .with_width(width)
        .with_functions(10)
        .to_string()
}

#[test]
fn a_service_has_no_process_id() {
    let mut profile = example_processes("");
    profile.processes[0].pid = 0;
    profile.processes[0].name = "web".to_owned();
    let text = tables(&profile, 100);
    assert!(text.contains("   web, CPython 3.12.1\n"), "{text}");
    assert!(
        text.contains("   4300   python2.7, CPython 2.7.18\n"),
        "{text}"
    );
    let mut profile = example_profile("");
    profile.processes[0].pid = 0;
    let text = summary(&profile, 100);
    assert!(
        text.starts_with("python3.12, CPython 3.12.1: 400 samples in"),
        "{text}"
    );
}

#[test]
fn the_hottest_functions_come_first() {
    assert_eq!(
        tables(&example_profile("/srv/app/main.py"), 100),
        "\
python3.12 (pid 4242, CPython 3.12.1): 400 samples in 10.0 s, 4.00 s of CPU
CPU        40 % of a core: Python 92 %, native 2 %, kernel 5 %, unknown 0.8 %
libraries  /srv/app 53 %, json 38 %, [kernel] 5 %, x;y 2 %, [jit] 0.8 %, importlib 0.8 %, 1 more
threads    MainThread (4242) 62 %, worker (4243) 19 %, worker (4244) 16 %, # naïve; 线程 (4245) 3 %

          self            total   function
 37.5%  1.50 s    37.5%  1.50 s   fib  /srv/app/main.py:7
 37.5%  1.50 s    37.5%  1.50 s   loads  /usr/lib/python3.12/json/__init__.py:299
  7.5%  0.30 s    12.5%  0.50 s   Rows.load.<locals>.<lambda>  /srv/app/main.py:14
  5.0%  0.20 s     5.0%  0.20 s   Straße.größe_日本  /srv/app/main.py:17
  5.0%  0.20 s     5.0%  0.20 s   ext4_file_write_iter  [ext4]
  2.2%  0.09 s     2.2%  0.09 s   a;b\\n\\u{1b}[31m <c> 9  x;y.py:1
  1.5%  0.06 s     1.5%  0.06 s   memchr::<u8>  _speedups.abi3.so
  1.2%  0.05 s    90.2%  3.61 s   main  /srv/app/main.py:3
  0.8%  0.03 s     0.8%  0.03 s   _find_and_load  <frozen importlib._bootstrap>:1349
  0.8%  0.03 s     0.8%  0.03 s   [no Python frames]
… and 11 more functions

12 samples were lost: the ring buffer was full.
20 stacks were truncated: only the 256 frames at either end are kept.
3 samples are of threads that ran no Python.
7 stacks lack native frames: the stack was not in memory (7).
13 native frames have no name: the file has no symbols (9), JIT code without a perf map (3), the \
kernel hides its addresses (1). For names of the kernel's functions, run agent as root or with \
CAP_SYSLOG, and set the sysctl kernel.kptr_restrict to 0 or 1.
"
    );
}

#[test]
fn ten_lines_say_what_there_is() {
    for profile in [
        example_profile("/srv/app/main.py"),
        example_processes("/srv/app/main.py"),
    ] {
        let waits = [(0, "[waiting: lock]"), (1, "[gc]")];
        let wall = of_kind(with_waits(profile.clone(), &waits), &wall::KIND);
        for (mut profile, labels) in [
            (profile, &["CPU", "libraries", "threads"][..]),
            (wall, &["running", "waiting", "libraries", "threads"]),
        ] {
            profile.losses = Losses::default();
            profile.filtered_out = FilteredOut::default();
            let text = summary(&profile, 80);
            let lines: Vec<_> = text.lines().collect();
            assert_eq!(lines.len(), 10, "{text}");
            for label in labels {
                assert!(text.contains(&format!("\n{label} ")), "{text}");
            }
            assert!(lines[1..].iter().all(|line| line.width() <= 80), "{text}");
            assert!(text.contains("fib  /srv/app/main.py:7\n"), "{text}");
            let several = profile.processes.len() > 1;
            assert_eq!(text.contains("\nprocesses "), several, "{text}");
        }
    }
}

#[test]
fn events_are_counted() {
    let profile = of_kind(example_profile("/srv/app/main.py"), &page_faults::KIND);
    let text = summary(&profile, 100);
    assert!(
        text.starts_with(
            "\
python3.12 (pid 4242, CPython 3.12.1): 400 samples in 10.0 s, 40400 page faults
code       Python 92 %, native 2 %, kernel 5 %, unknown 0.8 %
"
        ),
        "{text}"
    );
    let row = "\n 37.5%   15150    37.5%   15150   fib  /srv/app/main.py:7\n";
    assert!(text.contains(row), "{text}");
    let mut none = profile;
    none.samples.clear();
    none.losses = Losses::default();
    assert!(summary(&none, 80).ends_with("the process had no page fault in these 10.0 s.\n"));
}

#[test]
fn elapsed_time_is_divided_by_the_states_of_threads() {
    let waits = [(0, "[waiting: lock]"), (6, "[waiting: sleep]")];
    let profile = with_waits(example_profile("/srv/app/main.py"), &waits);
    let mut profile = of_kind(profile, &wall::KIND);
    profile.losses = Losses::default();
    profile.filtered_out.idle_ns = 21_500_000_000;
    let text = summary(&profile, 100);
    assert!(
        text.starts_with(
            "\
python3.12 (pid 4242, CPython 3.12.1): 400 samples in 10.0 s, 4.00 s of elapsed time
running    2.30 s, 23 % of a core: Python 86 %, native 4 %, kernel 9 %, unknown 1 %
waiting    1.70 s: lock 1.20 s, sleep 0.50 s
"
        ),
        "{text}"
    );
    assert!(
        text.ends_with("\n\nidle threads: 21.50 s left out (--idle shows them)\n"),
        "{text}"
    );
}

#[test]
fn several_processes_have_a_table() {
    let text = tables(&example_processes("/srv/app/main.py"), 100);
    let (processes, functions) = text.split_once("\n\n          self").unwrap();
    let (head, processes) = processes.split_once("\n\n").unwrap();
    assert!(head.starts_with("3 processes: 517 samples in 10.0 s, 5.17 s of CPU\nCPU "));
    assert_eq!(
        processes,
        "         total    pid   process
 77.4%  4.00 s   4242   python3.12, CPython 3.12.1
 21.3%  1.10 s   4300   python2.7, CPython 2.7.18
  1.4%  0.07 s   4301   #; s\\nh, no Python"
    );
    assert!(functions.contains("Rows.load.<locals>.<lambda>"), "{text}");
}

#[test]
fn many_processes_are_summed_up() {
    let mut profile = example_processes("");
    for tid in 0..40 {
        profile.processes.push(Process {
            pid: 5000 + tid,
            name: "worker".repeat(20),
            ..Process::default()
        });
        profile.threads.push(Thread {
            process: ProcessIndex(3 + tid),
            tid,
            name: String::new(),
        });
        profile.samples.push(Sample {
            stack: StackId(8),
            thread: ThreadIndex(7 + tid),
            task: None,
            count: 1 + u64::from(tid == 39),
            value: (1 + u64::from(tid == 39)) * PERIOD_NS,
        });
    }
    let text = tables(&profile, 60);
    let (_, table) = text.split_once("process\n").unwrap();
    let lines: Vec<_> = table.lines().skip(3).take(4).collect();
    assert_eq!(
        lines,
        [
            "  0.4%  0.02 s   5039   workerworkerworkerworkerworkerwork…",
            "  0.2%  0.01 s   5000   workerworkerworkerworkerworkerwork…",
            "  6.8%  0.38 s          … and 38 more processes",
            "",
        ]
    );
    assert!(lines.iter().all(|line| line.width() < 60));
}

#[test]
fn the_table_is_no_wider_than_the_terminal() {
    let text = tables(&example_profile("/srv/app/main.py"), 60);
    let (_, table) = text.split_once("\n\n").unwrap();
    let table: Vec<_> = table.lines().take(11).collect();
    assert!(table.iter().all(|line| line.width() <= 60), "{text}");
    assert!(table[2].ends_with("   loads  …/__init__.py:299"), "{text}");
    assert!(table[3].ends_with("   Rows.load.<locals>.<lamb…"), "{text}");
}

#[test]
fn lines_can_be_left_out_and_paths_be_whole() {
    let file = "/srv/a/directory/with/a/long/name/that/does/not/fit/main.py";
    let profile = example_profile(file);
    let text = |options| Summary::new(&profile, options).with_width(60).to_string();
    let plain = text(EncodeOptions::default());
    assert!(plain.contains("  …/") && !plain.contains(file), "{plain}");
    let chosen = text(EncodeOptions {
        line_numbers: LineNumbers::Hidden,
        full_file_names: true,
        ..EncodeOptions::default()
    });
    assert!(chosen.contains(&format!("fib  {file}\n")), "{chosen}");
    assert!(!chosen.contains(".py:"), "{chosen}");
}

#[test]
fn no_samples_are_explained() {
    let mut profile = example_profile("");
    profile.samples.clear();
    profile.losses = Losses::default();
    assert_eq!(
        summary(&profile, 80),
        "python3.12 (pid 4242, CPython 3.12.1): \
             no samples, the process used no CPU in these 10.0 s.\n"
    );
    profile.filtered_out.without_gil = 1;
    assert!(summary(&profile, 80).ends_with(
        "no samples, those of these 10.0 s were not asked for.\n\n\
             1 sample is of threads that did not hold the GIL, and filtered out.\n"
    ));
    profile.filtered_out = FilteredOut::default();
    profile.losses.lost_samples = 1;
    assert!(summary(&profile, 80).ends_with(
        "no samples, those of these 10.0 s were lost.\n\n\
             1 sample was lost: the ring buffer was full.\n"
    ));
    profile.losses = Losses::default();
    profile.processes.push(Process::default());
    assert_eq!(
        summary(&profile, 80),
        "2 processes: no samples, no process used any CPU in these 10.0 s.\n"
    );
    profile.processes.clear();
    assert_eq!(
        summary(&profile, 80),
        "all processes: no samples, no process used any CPU in these 10.0 s.\n"
    );
}

#[test]
fn without_cpython_it_is_not_known_that_there_was_nothing() {
    for (kind, what) in [
        (&allocations::KIND, "allocations"),
        (&exceptions::KIND, "exceptions"),
    ] {
        let mut profile = of_kind(example_profile(""), kind);
        profile.samples.clear();
        profile.losses = Losses::default();
        let python = profile.processes.clone();
        profile.processes = vec![Process {
            pid: 7,
            name: "server".to_owned(),
            ..Process::default()
        }];
        assert_eq!(
            summary(&profile, 80),
            format!("server (pid 7): no samples: {what} are recorded only where CPython runs.\n")
        );
        profile.losses.unprobed = 1;
        assert_eq!(
            summary(&profile, 80),
            format!(
                "server (pid 7): no samples, as it runs no CPython of which {what} could be recorded.\n"
            )
        );
        profile.losses.unprobed = 2;
        profile.processes.push(Process::default());
        let text = summary(&profile, 80);
        let none = format!(
            "2 processes: no samples, as none runs a CPython of which {what} could be recorded.\n"
        );
        assert!(text.starts_with(&none), "{text}");
        assert!(text.contains("\n2 processes have no probe, and no samples: "));
        profile.processes = python;
        profile.losses.unprobed = 1;
        let text = summary(&profile, 80);
        let recorded = format!("no samples, no {what} were recorded in these 10.0 s.\n");
        assert!(text.contains(&recorded), "{text}");
        assert!(
            text.contains("\n1 process has no probe, and no samples: "),
            "{text}"
        );
        profile.losses.unprobed = 0;
        let text = summary(&profile, 80);
        assert!(text.contains(&recorded), "{text}");
        profile.processes.clear();
        let text = summary(&profile, 80);
        assert!(
            text.contains("no samples, no process that runs CPython "),
            "{text}"
        );
    }
}

#[test]
fn small_objects_have_pools_only_in_a_cpython_with_a_gil() {
    let remark = "Objects of up to 512 bytes are in memory that CPython maps for many of them";
    let mut profile = of_kind(example_profile(""), &allocations::KIND);
    assert!(summary(&profile, 80).contains(remark));
    profile.losses.own_allocators = 1;
    let text = summary(&profile, 80);
    assert!(!text.contains(remark), "{text}");
    assert!(
        text.contains("a free-threaded build has an allocator of its own"),
        "{text}"
    );
    profile.losses.own_allocators = 0;
    profile.processes[0].is_python = false;
    assert!(!summary(&profile, 80).contains(remark));
}

#[test]
fn one_sample_is_not_samples() {
    let mut profile = example_profile("");
    profile.samples.truncate(1);
    profile.samples[0].count = 1;
    assert!(summary(&profile, 80).contains("): 1 sample in "));
}

#[test]
fn a_stack_without_frames_is_nobodys() {
    let mut profile = example_profile("");
    profile.stacks[0] = Box::from([]);
    profile.samples.retain(|sample| sample.stack == StackId(0));
    assert!(summary(&profile, 80).contains("120 samples"));
}
