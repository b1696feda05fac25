//! The source lines of Python frames, from the files that the processes have.
//!
//! Invariants: what cannot be read is left out; bytes and time are bounded.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    iter,
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use super::{
    document::{Document, DumpedProcess},
    frames::{DumpedFrame, DumpedKind},
    source_file::SourceFile,
    source_root::SourceRoot,
};
use crate::{binaries::core_dump::CoreDump, process::Process};

/// Most bytes that are read of all files.
const MAX_BYTES: u64 = 256 << 20;

/// Time to read them: what a process waits for may be the disk that has its source files.
const LIMIT: Duration = Duration::from_secs(2);

/// Numbers of lines, by the path of their file.
type WantedLines = BTreeMap<String, BTreeSet<u32>>;

/// A file of a process, by its id and the path.
type FoundFile = ((u32, String), SourceFile);

/// Adds the source line to each Python frame whose file can be read.
pub(super) fn add(document: &mut Document) {
    let wanted = document.processes.iter_mut();
    let wanted: Vec<_> = wanted.map(|it| (it.pid, wanted_lines(it))).collect();
    let open = |pid| Process::open(pid).ok();
    add_all(
        document,
        sent_within(LIMIT, move |found| read(wanted, open, found)),
    );
}

/// The same of a core dump.
pub(super) fn add_of_core(document: &mut Document, core: &Arc<CoreDump>) {
    let wanted = document.processes.iter_mut();
    let wanted: Vec<_> = wanted.map(|it| (it.pid, wanted_lines(it))).collect();
    let core = Arc::clone(core);
    let open = move |_| Some(Arc::clone(&core));
    add_all(
        document,
        sent_within(LIMIT, move |found| read(wanted, open, found)),
    );
}

fn add_all(document: &mut Document, found: Vec<FoundFile>) {
    let found: HashMap<_, _> = found.into_iter().collect();
    for process in &mut document.processes {
        add_to(process, &found);
    }
}

fn python_frames(process: &mut DumpedProcess) -> impl Iterator<Item = &mut DumpedFrame> {
    let threads = process.threads.iter_mut();
    let tasks = process.tasks.iter_mut().flatten();
    let frames = threads
        .filter_map(|thread| thread.frames.as_mut())
        .chain(tasks.filter_map(|task| task.frames.as_mut()))
        .flatten();
    frames.filter(|frame| frame.kind == DumpedKind::Python)
}

fn wanted_lines(process: &mut DumpedProcess) -> WantedLines {
    let mut wanted = WantedLines::new();
    for frame in python_frames(process) {
        if let (Some(path), Some(line)) = (&frame.file, frame.line) {
            match wanted.get_mut(path) {
                Some(lines) => lines.insert(line),
                None => wanted.insert(path.clone(), [line].into()).is_none(),
            };
        }
    }
    wanted
}

/// Reads the files of processes, and sends what is found.
fn read<R: SourceRoot>(
    wanted: Vec<(u32, WantedLines)>,
    open: impl Fn(u32) -> Option<R>,
    found: &mpsc::Sender<FoundFile>,
) {
    let mut budget_bytes = MAX_BYTES;
    for (pid, files) in wanted {
        // It may have ended.
        let Some(process) = open(pid) else {
            continue;
        };
        for (path, lines) in files {
            if let Some(file) = SourceFile::read(&process, &path, &lines, &mut budget_bytes)
                && found.send(((pid, path), file)).is_err()
            {
                // The time is over.
                return;
            }
        }
    }
}

fn add_to(process: &mut DumpedProcess, found: &HashMap<(u32, String), SourceFile>) {
    let pid = process.pid;
    let mut changed = BTreeSet::new();
    for frame in python_frames(process) {
        if let (Some(path), Some(line)) = (&frame.file, frame.line)
            && let Some(file) = found.get(&(pid, path.clone()))
        {
            frame.source = file.line(line).map(str::to_owned);
            if file.may_have_changed() {
                changed.insert(path.clone());
            }
        }
    }
    process.changed_files = changed.into_iter().collect();
}

/// What a thread sends until it ends; after `limit` it is left behind.
fn sent_within<T: Send + 'static>(
    limit: Duration,
    run: impl FnOnce(&mpsc::Sender<T>) + Send + 'static,
) -> Vec<T> {
    let (sender, receiver) = mpsc::channel();
    let thread = thread::Builder::new().name("source-lines".to_owned());
    // Without a thread nothing is sent.
    let _ = thread.spawn(move || run(&sender));
    let until = Instant::now() + limit;
    let left = || until.saturating_duration_since(Instant::now());
    iter::from_fn(|| receiver.recv_timeout(left()).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_never_ends_is_left_behind() {
        let (free, held) = mpsc::channel::<()>();
        let sent = sent_within(Duration::from_millis(100), move |sender| {
            sender.send(1).unwrap();
            let _ = held.recv();
            let _ = sender.send(2);
        });
        assert_eq!(sent, [1]);
        // It was not waited for.
        drop(free);
    }

    #[test]
    fn who_ends_is_waited_for() {
        let sent = sent_within(Duration::from_secs(60), |sender| {
            thread::sleep(Duration::from_millis(10));
            sender.send(1).unwrap();
        });
        assert_eq!(sent, [1]);
    }
}
