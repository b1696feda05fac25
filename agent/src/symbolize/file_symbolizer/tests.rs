//! Which look-ups are made in which window.

use super::{Allowance, Cost, FileSymbolizer, addresses};
use crate::{
    binaries::{elf::Elf, executables::Executables},
    process::Process,
    symbolize::{
        CpuShare, CpuShares, Haste,
        elf_symbols::{ElfSymbols, SymbolLimits},
    },
    workers::Workers,
};
use agent_common::record::{NativeFrame, NativeKind};
use std::{fs::File, time::Duration};

/// The executables of this process, and frames in functions of its program.
fn own_frames() -> (Executables, [(u32, NativeFrame); 2]) {
    let process = Process::open(std::process::id()).unwrap();
    let executables = Executables::default();
    let mappings = executables.read_mappings(&process).unwrap().mappings;
    let functions: [fn(); 2] = [one, other];
    let frames = functions.map(|function| {
        let address = function as usize as u64;
        let mapping = mappings
            .iter()
            .find(|mapping| (mapping.start..mapping.end).contains(&address))
            .unwrap();
        let frame = NativeFrame {
            address: address.wrapping_sub(mapping.bias),
            id_or_count: mapping.executable,
            kind: NativeKind::FILE,
        };
        (process.pid(), frame)
    });
    (executables, frames)
}

#[inline(never)]
fn one() {
    std::hint::black_box(1);
}

#[inline(never)]
fn other() {
    std::hint::black_box(2);
}

fn symbolizer() -> FileSymbolizer {
    FileSymbolizer::new(16 << 20, Workers::default(), Haste::default())
}

const NONE: CpuShare = CpuShare {
    burst: Duration::ZERO,
    per_second: Duration::ZERO,
};

const ENOUGH: CpuShare = CpuShare {
    burst: Duration::from_secs(100),
    per_second: Duration::ZERO,
};

/// The name of each frame, and whether it has a line.
fn found(
    symbolizer: &mut FileSymbolizer,
    executables: &Executables,
    frames: &[(u32, NativeFrame); 2],
) -> [Option<(String, bool)>; 2] {
    frames.map(|(_, frame)| {
        let result = symbolizer.find(executables, frame.id_or_count, frame.address)?;
        let function = result.functions.as_ref().unwrap().last().unwrap().clone();
        let name = function.name.rsplit("::").next().unwrap().to_owned();
        Some((name, function.line.is_some()))
    })
}

fn expected(has_line: bool) -> [Option<(String, bool)>; 2] {
    ["one", "other"].map(|name| Some((name.to_owned(), has_line)))
}

#[test]
fn results_are_cached_across_windows() {
    let (executables, frames) = own_frames();
    let mut symbolizer = symbolizer();
    symbolizer.prepare(&executables, &frames);
    let totals = symbolizer.totals();
    assert_eq!((totals.addresses, totals.incomplete), (2, 0));
    for _ in 0..3 {
        // Not even the symbols of the file are needed.
        symbolizer.release_memory();
        symbolizer.prepare(&executables, &frames);
        assert_eq!(
            found(&mut symbolizer, &executables, &frames),
            expected(true)
        );
        assert_eq!(symbolizer.totals(), totals);
    }
}

#[test]
fn names_come_first_and_lines_as_the_cpu_time_allows() {
    let (executables, frames) = own_frames();
    let mut symbolizer = symbolizer();
    let mut window = |opening, look_ups| {
        symbolizer.limit_cpu(CpuShares { opening, look_ups });
        symbolizer.prepare(&executables, &frames);
        let found = found(&mut symbolizer, &executables, &frames);
        (found, symbolizer.totals().incomplete)
    };
    assert_eq!(window(NONE, ENOUGH), (expected(false), 2), "it is not open");
    assert_eq!(window(NONE, NONE), (expected(false), 4));
    let ([one, other], incomplete) = window(ENOUGH, NONE);
    let lines = [one.unwrap().1, other.unwrap().1];
    assert_eq!((lines, incomplete), ([true, false], 5), "it is opened");
    assert_eq!(window(NONE, ENOUGH), (expected(true), 5));
}

#[test]
fn files_in_which_look_ups_cost_little_are_first() {
    let (executables, frames) = own_frames();
    let mut symbolizer = symbolizer();
    let job = |symbolizer: &mut FileSymbolizer, number: u32| {
        let frame = frames[0].1;
        let job = symbolizer.job(&executables, frame.id_or_count, vec![frame.address]);
        super::LookupJob {
            executable: number,
            ..job.unwrap()
        }
    };
    let opened = |symbolizer: &mut FileSymbolizer, number| {
        let opened = job(symbolizer, number).run(Allowance::LookUps(1));
        super::LookupJob {
            symbols: Some(opened.symbols),
            ..job(symbolizer, number)
        }
    };
    let closed = job(&mut symbolizer, 1).run(Allowance::Names);
    let closed = super::LookupJob {
        symbols: Some(closed.symbols),
        ..job(&mut symbolizer, 1)
    };
    let mut jobs = vec![job(&mut symbolizer, 2), closed];
    jobs.extend([3, 4, 5].map(|number| opened(&mut symbolizer, number)));
    assert!(jobs[1].opening_time() > Some(Duration::ZERO));
    assert_eq!(jobs[2].opening_time(), Some(Duration::ZERO));
    for (number, micros) in [(3, 900), (4, 20)] {
        let each = Duration::from_micros(micros);
        symbolizer.look_up_times.insert(number, each);
    }
    symbolizer.sort_by_cost(&mut jobs);
    let order: Vec<_> = jobs.iter().map(|job| job.executable).collect();
    assert_eq!(order, [5, 4, 3, 1, 2]);
}

#[test]
fn a_window_has_what_was_found_when_the_time_is_over() {
    let (executables, frames) = own_frames();
    let mut symbolizer = symbolizer();
    let file = frames[0].1.id_or_count;
    let wanted = addresses(&frames).remove(&file).unwrap();
    let job = symbolizer.job(&executables, file, wanted).unwrap();
    let results = job.run(Allowance::LookUps(1));
    let complete = results.found.iter().filter(|(_, it)| it.is_complete);
    assert_eq!((results.found.len(), complete.count()), (2, 1));
    symbolizer.accept(file, Some(Cost::Opening), Ok(results));
    symbolizer.prepare(&executables, &frames);
    assert_eq!(
        found(&mut symbolizer, &executables, &frames),
        expected(true)
    );
}

#[test]
fn debugging_information_that_is_unusable_is_not_read_again() {
    let (executables, frames) = own_frames();
    let mut symbolizer = symbolizer();
    let elf = Elf::read(File::open("/proc/self/exe").unwrap()).unwrap();
    let limits = SymbolLimits {
        debug_bytes_at_once: 1,
        ..SymbolLimits::default()
    };
    let mut symbols = ElfSymbols::load(elf, None, &limits);
    symbols.find(frames[0].1.address);
    let file = frames[0].1.id_or_count;
    symbolizer.symbols.insert(file, Box::new(symbols));
    symbolizer.release_memory();
    symbolizer.prepare(&executables, &frames);
    assert_eq!(
        found(&mut symbolizer, &executables, &frames),
        expected(false)
    );
    // Nothing is left to be looked up.
    assert_eq!(symbolizer.totals().incomplete, 0);
}

#[test]
fn names_do_not_wait_for_a_job_that_takes_long() {
    let (executables, frames) = own_frames();
    let mut symbolizer = symbolizer();
    let file = frames[0].1.id_or_count;
    let (held, release) = std::sync::mpsc::channel::<()>();
    let first = addresses(&frames[..1]).remove(&file).unwrap();
    let job = symbolizer.job(&executables, file, first).unwrap();
    let subject = super::details_of(&job);
    let run = move || {
        release.recv().unwrap();
        job.run(Allowance::Unlimited)
    };
    let limit = super::OPENING_LIMIT;
    let lane = super::Lane::Symbols;
    symbolizer.late = Some(super::RunningJob {
        file,
        cost: Some(Cost::Opening),
        results: symbolizer.workers.submit(lane, subject, limit, run),
    });
    symbolizer.prepare(&executables, &frames);
    assert_eq!(
        found(&mut symbolizer, &executables, &frames),
        expected(false)
    );
    held.send(()).unwrap();
    let is_late = |symbolizer: &mut FileSymbolizer| {
        symbolizer.accept_late();
        symbolizer.late.is_some()
    };
    while is_late(&mut symbolizer) {
        std::thread::yield_now();
    }
    let [one, other] = found(&mut symbolizer, &executables, &frames);
    assert_eq!([one.unwrap().1, other.unwrap().1], [true, false]);
    symbolizer.prepare(&executables, &frames);
    assert_eq!(
        found(&mut symbolizer, &executables, &frames),
        expected(true)
    );
}
