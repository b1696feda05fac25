//! `agent top`: its tables as text, and its screen in a terminal.

use std::fs;

use rustix::process::Signal;

use super::{
    capture::Capture,
    cpu_split::{SHARES, TOLERANCE},
    machine,
    source::function_name,
    target::{Killed, Target, mortal},
    terminal::Terminal,
};

/// The key Escape.
const ESCAPE: &str = "\u{1b}";

/// Numbers at the beginning of the row of a function.
fn numbers(table: &str, function: &str) -> Vec<f64> {
    let row = table
        .lines()
        .find(|row| row.split_whitespace().any(|word| word == function))
        .unwrap_or_else(|| panic!("{function}: {table}"));
    let words = row.split_whitespace();
    words.map_while(|word| word.parse().ok()).collect()
}

fn table(arguments: &str) -> String {
    let arguments: Vec<_> = ["top", "--batch"]
        .into_iter()
        .chain(arguments.split(' '))
        .collect();
    let capture = Capture::run(&arguments);
    capture.assert_success();
    String::from_utf8(capture.output).unwrap()
}

/// Three functions use 70, 20 and 10 per cent: the table says so, and its seconds are those of the scheduler.
#[test]
fn the_table_has_the_shares_of_the_workload() {
    let _machine = machine::alone();
    machine::for_each_kind(|interpreter| {
        let target = Target::start(interpreter, "cpu_split");
        let options = format!("-n 1 -d 4 -r 997 --no-native --pid {}", target.pid());
        let table = table(&options);
        let shares = SHARES.map(|(function, share)| {
            let name = function_name(function, interpreter);
            (numbers(&table, name)[0], share)
        });
        println!("{}: {shares:.2?}", interpreter.name);
        for (shown, share) in shares {
            assert!((shown - share).abs() <= TOLERANCE, "{table}");
        }
        let [shown, since_start] = [0, 2].map(|column| numbers(&table, "seventy")[column]);
        assert!(shown > 0.0 && since_start > 0.0, "{table}");
    });
}

/// Windows follow one another without a gap: seconds since the start are the CPU time of the process.
#[test]
fn seconds_since_the_start_are_those_that_the_scheduler_counts() {
    let _machine = machine::alone();
    let target = Target::start(machine::one_interpreter(), "cpu_split");
    let used = || cpu_ticks(target.pid());
    let arguments = format!("-n 12 -d 500ms -r 499 --no-native --pid {}", target.pid());
    let before = used();
    let tables = table(&arguments);
    let after = used();
    let last = tables.rsplit("self%").next().unwrap();
    assert_eq!(tables.matches("self%").count(), 12, "{tables}");
    let seconds: f64 = SHARES
        .iter()
        .map(|(function, _)| numbers(last, function)[2])
        .sum();
    let ticks = f64::from(u32::try_from(after - before).unwrap());
    let scheduled = ticks / 100.0;
    println!("{seconds} s of {scheduled} s, with the start and the end of the agent");
    // The rest was used before sampling began and after it ended.
    assert!(seconds <= scheduled * 1.02 + 0.02, "{tables}");
    assert!(seconds >= scheduled * 0.6, "{seconds} of {scheduled}");
}

/// CPU time of a process so far, in ticks of the kernel.
fn cpu_ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let fields: Vec<_> = fields.split(' ').collect();
    fields[11..13]
        .iter()
        .map(|it| it.parse::<u64>().unwrap())
        .sum()
}

/// A thread that sleeps with the GIL has no CPU time: the threads, and elapsed time, have it.
#[test]
fn what_threads_wait_for_is_in_the_tables() {
    let _machine = machine::alone();
    let target = Target::start(machine::one_interpreter(), "gil_holders");
    let pid = target.pid();
    let head = |table: &str| table.lines().nth(1).unwrap().to_owned();
    let threads = table(&format!("-n 1 -d 3 --table threads --pid {pid}"));
    println!("{threads}");
    assert!(head(&threads).contains("GIL held "), "{threads}");
    // CPU, GIL held, queue, GIL, wait, idle, and seconds since the start.
    let [_, _, _, gil, wait, _, _] = numbers(&threads, "computer")[..] else {
        panic!("{threads}");
    };
    assert!(gil > 10.0 && gil > wait, "{threads}");
    let functions = table(&format!("-n 1 -d 3 --event wall --no-native --pid {pid}"));
    // It is 44 % of the time of one of four threads, of which there are 60 samples.
    assert!(numbers(&functions, "holds")[0] > 5.0, "{functions}");
}

/// The table of a host has its processes, with their commands.
#[test]
fn the_processes_of_the_host_are_a_table() {
    let _machine = machine::alone();
    let target = Target::start(machine::one_interpreter(), "cpu_split");
    let table = table("-n 1 -d 2");
    let row = table
        .lines()
        .find(|row| row.contains("cpu_split.py"))
        .unwrap_or_else(|| panic!("{table}"));
    let numbers: Vec<_> = row.split_whitespace().take(2).collect();
    assert_eq!(numbers[0], target.pid().to_string(), "{row}");
    assert!(numbers[1].parse::<f64>().unwrap() > 10.0, "{row}");
}

/// Whose threads have the GIL and wait for it is told of each process of the host, and of one that is opened.
#[test]
fn what_the_processes_of_the_host_wait_for_is_in_the_tables() {
    let _machine = machine::alone();
    let target = Target::start(machine::one_interpreter(), "gil_holders");
    let pid = target.pid().to_string();
    let sleeper = Killed::start(mortal("sleep").arg("600"));
    let table = table("-n 1 -d 4 --event wall --table processes");
    println!("{table}");
    let row = |pid: &str| {
        let numbers = |row: &str| -> Vec<f64> {
            let words = row.split_whitespace();
            words.map_while(|word| word.parse().ok()).collect()
        };
        let mut rows = table.lines().map(numbers);
        let row = rows.find(|it| it.first() == pid.parse().ok().as_ref());
        row.unwrap_or_else(|| panic!("{pid}: {table}"))
    };
    // Its id, CPU, GIL held, queue, GIL, wait, and seconds since the start.
    let [_, cpu, held, _, gil, wait, _] = row(&pid)[..] else {
        panic!("{table}");
    };
    // One of its threads has the GIL nearly always, computing or asleep, while others wait for it.
    assert!(held > cpu && held > 80.0 && held < 105.0, "{table}");
    assert!(gil > 30.0 && wait > 30.0, "{table}");
    let [_, cpu, held, _, gil, wait, _] = row(&sleeper.pid().to_string())[..] else {
        panic!("{table}");
    };
    assert!(cpu < 5.0 && held == 0.0 && gil == 0.0, "{table}");
    assert!((90.0..110.0).contains(&wait), "{table}");

    let mut terminal = Terminal::start(&["top", "--event", "wall"], 24, 80);
    terminal.wait_for("[4 processes]");
    terminal.press("/gil_holders\r");
    terminal.wait_until("it is found", |lines| {
        lines.get(4).is_some_and(|row| row.contains(&pid))
    });
    terminal.press("\r");
    terminal.wait_for(&format!("(pid {pid}"));
    terminal.wait_for("GIL held ");
    terminal.press("3");
    terminal.wait_for("computer");
    terminal.press("q");
    assert!(terminal.end().success());
}

/// Keys in a real terminal, from the first rows to the end.
#[test]
fn a_person_can_look_around() {
    let _machine = machine::alone();
    let target = Target::start(machine::one_interpreter(), "cpu_split");
    let pid = target.pid().to_string();
    let mut terminal = Terminal::start(&["top", "--pid", &pid, "--no-native"], 24, 80);
    let lines = terminal.wait_until("the busiest function is first", |lines| {
        lines.get(4).is_some_and(|row| row.contains("seventy"))
    });
    println!("{}", lines.join("\n"));
    assert!(lines[0].contains(&format!("pid {pid}")) && lines[0].contains(" -E -s -B "));
    assert!(lines[1].starts_with("CPU "));
    assert_eq!(lines.len(), 24);
    // Sort.
    terminal.press("t");
    terminal.wait_until("what calls the others is first", |lines| {
        let is_caller = |row: &str| row.contains("  main  ") || row.contains("  <module>  ");
        lines[2].contains("by total") && is_caller(lines[4]) && is_caller(lines[5])
    });
    // Search.
    terminal.press("/TWEN");
    terminal.wait_for("/TWEN_");
    terminal.press("\r");
    terminal.wait_until("one row is left", |lines| {
        lines[4].contains("twenty") && lines[5].trim().is_empty()
    });
    // Callers and callees.
    terminal.press("\r");
    terminal.wait_for("► twenty");
    assert!(terminal.wait_for(" main ").contains("100.0"));
    terminal.press(ESCAPE);
    // Two of them at once would be another key.
    terminal.wait_until("the table is back", |lines| {
        let has = |text| lines.iter().any(|line| line.contains(text));
        has("/TWEN") && !has("► twenty")
    });
    terminal.press(ESCAPE);
    terminal.wait_for("seventy");
    // Lines: those of the function.
    terminal.press("s2");
    terminal.wait_until("there are lines", |lines| {
        lines[2].contains("[2 lines]") && lines[4].contains("seventy")
    });
    // Pause: nothing moves while the program runs on.
    terminal.press(" ");
    terminal.wait_for("PAUSED");
    let paused = terminal.text();
    let ticks = cpu_ticks(target.pid());
    test_support::child::wait_until("the program uses more time", || {
        cpu_ticks(target.pid()) > ticks + 150
    });
    // Time goes on, and what it costs; the rows stay.
    let rows = |text: &str| text.lines().skip(4).take(19).collect::<Vec<_>>().join("\n");
    assert_eq!(rows(&terminal.text()), rows(&paused));
    terminal.press(" ");
    terminal.wait_until("it goes on", |lines| !lines[2].contains("PAUSED"));
    // Other sizes.
    terminal.resize(60, 200);
    terminal.wait_until("the keys are in the last line", |lines| {
        lines.len() == 60 && lines[59].contains("r restart sums")
    });
    assert!(terminal.text().contains("total s"));
    terminal.resize(24, 80);
    terminal.wait_until("it is small again", |lines| lines.len() == 24);
    // A key that comes together with another size is not lost.
    for _ in 0..30 {
        terminal.resize(30, 100);
        terminal.press("3");
        terminal.wait_for("[3 threads]");
        terminal.resize(24, 80);
        terminal.press("1");
        terminal.wait_for("[1 functions]");
    }
    terminal.press("3");
    terminal.wait_for("MainThread");
    terminal.press("?");
    terminal.wait_for("callers and callees");
    terminal.press(ESCAPE);
    terminal.wait_for("MainThread");
    terminal.press("q");
    assert!(terminal.end().success());
}

/// The first screen of a host is its processes; one of them is opened, and Esc goes back.
#[test]
fn a_process_of_the_host_is_opened() {
    let _machine = machine::alone();
    let target = Target::start(machine::one_interpreter(), "cpu_split");
    let mut terminal = Terminal::start(&["top"], 30, 200);
    terminal.wait_for("[4 processes]");
    terminal.press("/cpu_split\r");
    terminal.wait_until("it is found", |lines| {
        lines.get(4).is_some_and(|row| row.contains("cpu_split.py"))
    });
    terminal.press("\r");
    terminal.wait_for(&format!("(pid {}", target.pid()));
    terminal.wait_for("seventy");
    terminal.press(ESCAPE);
    terminal.wait_for("[4 processes]");
    terminal.press("\u{3}");
    assert!(terminal.end().success());
}

/// The last state stays when the process ends, and a signal gives the terminal back.
#[test]
fn the_end_of_the_process_is_said() {
    let _machine = machine::shared();
    let target = Target::start(machine::one_interpreter(), "cpu_split");
    let pid = target.pid();
    let mut terminal = Terminal::start(&["top", "--pid", &pid.to_string()], 24, 80);
    terminal.wait_for("seventy");
    target.kill();
    terminal.wait_for(&format!("Process {pid} has ended."));
    terminal.press("t");
    terminal.wait_for("by total");
    terminal.wait_for("seventy");
    terminal.signal(Signal::TERM);
    assert!(terminal.end().success());
    drop(target);
}

/// A program that only waits has no CPU time: the screen says what to press.
#[test]
fn a_program_that_waits_is_told_by_elapsed_time() {
    let _machine = machine::shared();
    let target = Killed::start(mortal("sleep").arg("600"));
    let mut terminal = Terminal::start(&["top", "-p", &target.pid().to_string()], 24, 100);
    terminal.wait_for("press e for what the threads wait for");
    terminal.press("e");
    terminal.wait_for("elapsed time");
    terminal.wait_for("nanosleep");
    terminal.press("q");
    assert!(terminal.end().success());
}

/// What cannot be watched is one sentence, and no screen.
#[test]
fn a_process_that_does_not_exist_is_an_error() {
    let capture = Capture::run(&["top", "--pid", "4194304"]);
    assert!(!capture.status.success());
    assert_eq!(capture.messages.lines().count(), 1, "{}", capture.messages);
    assert!(capture.messages.contains("4194304"), "{}", capture.messages);
}
