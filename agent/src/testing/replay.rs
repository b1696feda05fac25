//! Replays a recorded session without a kernel: its records, processes and events come in the recorded
//! order.

#![expect(
    clippy::expect_used,
    reason = "a test whose recording cannot be read fails by panicking"
)]

use std::{
    collections::BTreeMap,
    fs,
    io::Read as _,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use agent_common::record::ProcessEventKind;
use flate2::read::GzDecoder;
use tempfile::TempDir;

use crate::{
    aggregate::{Filter, ProfileTiming},
    binaries::executables::Executables,
    bpf::Counters,
    config::Config,
    daemon::{
        metrics::{State, Threads},
        reload::ReloadStatus,
        target_table::TargetTable,
        telemetry::Usage,
        window::{self, Totals},
    },
    export::{ExporterStatus, ProfileBatch},
    process::{Process, machine::enter_machine},
    profile::{CPU, Periods, Profile},
    session::{
        Counting, LeftOut, Observer, Origin, Profiles, Received,
        recording::{Entry, RecordedEvent, RecordedFinding},
    },
    symbolize::{LookupTotals, NativeSymbolizer},
    targets::labels::metadata::{MetadataOptions, ProcessMetadata},
    threads::UnfinishedTotals,
    workers::Workers,
};

/// Extension of recorded files, all of which are compressed.
const ENDING: &str = "gz";

/// Start of recorded sessions in profiles: 2026-01-02 03:04:05 UTC.
const START: Duration = Duration::from_secs(1_767_323_045);

/// Duration of recorded sessions in profiles.
const DURATION: Duration = Duration::from_secs(5);

/// Most bytes that the symbols of files take.
const SYMBOL_BYTES: usize = 64 << 20;

/// The profile of the capture that was recorded in `folder` with `rate` samples per second.
///
/// # Panics
///
/// When the recording cannot be read.
#[must_use]
pub fn replay_capture(folder: &Path, name: &str, rate: u32) -> Profile {
    let mut replay = Replay::run(folder, name, false, &mut ());
    let window = replay.counting.windows.take();
    let about = about(rate);
    let profile = replay
        .profiles
        .profile(&window, &about, &Filter::default(), &replay.counters);
    profile.expect("an empty filter")
}

/// The recorded agent of a host, at the end of its first window.
pub struct HostReplay {
    replay: Replay,
    targets: TargetTable,
    config: Config,
    totals: Totals,
}

impl HostReplay {
    /// Replays the recording in `folder`.
    ///
    /// # Panics
    ///
    /// When the recording cannot be read.
    #[must_use]
    pub fn new(folder: &Path, name: &str, config: Config) -> Self {
        let mut targets = TargetTable::new(&config);
        Self {
            replay: Replay::run(folder, name, true, &mut targets),
            targets,
            config,
            totals: Totals::default(),
        }
    }

    /// Ends the window and returns what the exporters get.
    ///
    /// # Panics
    ///
    /// When a profile cannot be encoded.
    pub fn end_window(&mut self) -> Vec<ProfileBatch> {
        let Self {
            replay,
            targets,
            config,
            totals,
        } = self;
        let about = about(config.rate);
        let options = config.batch_options();
        let window = replay.counting.windows.take();
        let series = window::split_series(window, targets, totals);
        let filter = config.filter();
        let batches = series.iter().filter_map(|((labels, kind), part)| {
            let profiles = &mut replay.profiles;
            let mut kinds = config.kinds.iter();
            let kind = kinds.find(|configured| configured.recorded_as() == *kind)?;
            let about = about.of_kind(kind);
            let batch = window::batch(profiles, labels, part, &about, &filter, &options)?;
            Some(batch.inspect(|batch| totals.add_batch(batch)))
        });
        batches
            .collect::<Result<_, _>>()
            .expect("memory that can be written")
    }

    /// The metrics, with the recorded counters.
    #[must_use]
    pub fn metrics(&self, usage: Usage, exporters: Vec<ExporterStatus>) -> String {
        let native = self.replay.profiles.native.as_ref();
        let state = State {
            usage,
            counters: Some(self.replay.counters.clone()),
            cost: Some((12_345, 6_789_000_000)),
            cpus: 2,
            threads: Threads {
                cached: (
                    self.replay.profiles.catalog.cached_stacks(),
                    self.replay.profiles.python.len(),
                ),
                longest_drain_delay: Duration::from_micros(201_234),
                left_out: LeftOut::default(),
                dropped: (0, 0),
                lookups: LookupTotals {
                    cpu: Duration::from_micros(2_371),
                    ..native.map(NativeSymbolizer::totals).unwrap_or_default()
                },
                workers: Workers::default().status(),
                unfinished: UnfinishedTotals {
                    finished: 12,
                    truncated: 2,
                    given_up: 3,
                },
                passes: None,
            },
            executables: self.replay.executables.counts(),
            targets: &self.targets,
            totals: &self.totals,
            rate: self.config.rate,
            period: Duration::from_secs(1) / self.config.rate,
            pods: Vec::new(),
            exporters,
            reloads: &ReloadStatus {
                is_applied: true,
                applied_at: SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000),
                waiting: vec!["events"],
            },
        };
        state.render()
    }
}

/// What a session has after a recording was replayed.
struct Replay {
    counting: Counting,
    profiles: Profiles,
    executables: Executables,
    counters: Counters,
    /// Recorded numbers of executables that no process has mapped yet, by path.
    numbers: BTreeMap<PathBuf, u32>,
    /// The root of the recorded machine.
    machine: TempDir,
}

impl Replay {
    fn run<O: Observer>(folder: &Path, name: &str, is_host: bool, observer: &mut O) -> Self {
        let machine = tempfile::tempdir().expect("a folder");
        unpack(&folder.join("machine"), machine.path());
        enter_machine(machine.path());
        let recording = fs::File::open(folder.join(name).with_extension(ENDING));
        let recording = GzDecoder::new(recording.expect("a recording"));
        let entries = Entry::read_all(recording).expect("a complete recording");

        let numbers = entries.iter().filter_map(|entry| match entry {
            Entry::Executable(executable) => Some((executable.path.clone(), executable.number)),
            _ => None,
        });
        let executables = Executables::default();
        let native = NativeSymbolizer::new(SYMBOL_BYTES, Workers::default());
        let mut replay = Self {
            counting: Counting::default(),
            profiles: Profiles::new(Some(native), executables.clone()),
            executables,
            counters: Counters::default(),
            numbers: numbers.collect(),
            machine,
        };
        if is_host {
            let kernel = Profiles::kernel_threads();
            observer.on_process(&kernel, Origin::Examined(None));
            replay.profiles.catalog.add_process(kernel);
        }
        for entry in &entries {
            match entry {
                // Without a kernel no pages are fetched and no tables are loaded; process events are
                // entries of their own.
                Entry::Record(bytes) => replay.receive(bytes),
                Entry::Event(event) => replay.on_event(*event, is_host, observer),
                Entry::Finding(finding) => replay.add_process(finding, observer),
                // Those that were added since the session was recorded are 0.
                Entry::Counters(counters) => {
                    for (counter, recorded) in replay.counters.0.iter_mut().zip(counters) {
                        *counter = *recorded;
                    }
                }
                Entry::Executable(_) => {}
            }
        }
        replay
    }

    fn add_process<O: Observer>(&mut self, finding: &RecordedFinding, observer: &mut O) {
        let files = finding.files.as_ref();
        let opened = files.map(|files| self.open(finding.pid, files));
        let process = finding.process();
        let mut metadata = None;
        if let Some(opened) = &opened {
            self.number_executables(opened);
            if let Ok(mapped) = self.executables.read_mappings(opened) {
                self.executables.set_process(process.pid, &mapped);
            }
            metadata = ProcessMetadata::read(opened, MetadataOptions::default()).ok();
        }
        let origin = match opened {
            Some(_) => Origin::Examined(metadata.as_ref()),
            None => Origin::Forked,
        };
        observer.on_process(&process, origin);
        self.profiles.catalog.add_process(process);
    }

    fn receive(&mut self, bytes: &[u8]) {
        let mut received = Received::default();
        self.counting.receive(bytes, &mut received);
        self.profiles.receive(&received.references);
    }

    fn on_event<O: Observer>(&mut self, event: RecordedEvent, is_host: bool, observer: &mut O) {
        match ProcessEventKind(event.kind) {
            ProcessEventKind::FORKED => self.executables.add_forked(event.pid, event.parent),
            ProcessEventKind::EXECUTED => self.executables.remove_process(event.pid),
            ProcessEventKind::EXITED => {
                self.executables.remove_process(event.pid);
                if is_host {
                    observer.on_exit(event.pid);
                    self.profiles.catalog.end_process(event.pid);
                }
            }
            _ => {}
        }
    }

    /// Gives the files that a process maps the numbers that they have in records.
    fn number_executables(&mut self, process: &Process) {
        for mapping in process.mappings().expect("mappings") {
            let path = match &mapping.file {
                Some(file) => file.path.as_path(),
                None if mapping.is_vdso => Path::new("[vdso]"),
                None => continue,
            };
            if mapping.permissions.execute
                && let Some(number) = self.numbers.remove(path)
            {
                self.executables
                    .number_as_recorded(number, process, &mapping);
            }
        }
    }

    /// Opens a process whose files in `/proc` are the recorded ones.
    fn open(&self, pid: u32, files: &[(String, String)]) -> Process {
        let root = self.machine.path();
        let folder = root.join("proc").join(pid.to_string());
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        symlink(root, folder.join("root")).expect("a link");
        for (name, text) in files {
            let path = folder.join(name);
            match name.as_str() {
                "exe" => symlink(text, path).expect("a link"),
                "status" => fs::write(path, with_own_user(text)).expect("a file"),
                _ => fs::write(path, text).expect("a file"),
            }
        }
        Process::open(pid).expect("a process")
    }
}

/// Perf maps are read if their owner is the user of the process.
fn with_own_user(status: &str) -> String {
    let user = rustix::process::geteuid().as_raw();
    let lines = status.lines().map(|line| match line.strip_prefix("Uid:") {
        Some(_) => format!("Uid:\t{user}\t{user}\t{user}\t{user}\n"),
        None => format!("{line}\n"),
    });
    lines.collect()
}

fn about(rate: u32) -> ProfileTiming {
    ProfileTiming {
        kind: &CPU,
        start: SystemTime::UNIX_EPOCH + START,
        duration: DURATION,
        periods: Periods::new(rate, None),
    }
}

/// Decompresses a folder of files that are compressed one by one.
fn unpack(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            unpack(&path, &to.join(entry.file_name()));
        } else {
            let mut bytes = Vec::new();
            let file = fs::File::open(&path).expect("a file");
            let read = GzDecoder::new(file).read_to_end(&mut bytes);
            read.expect("a compressed file");
            let name = path.file_stem().expect("a name");
            fs::write(to.join(name), bytes).expect("a file");
        }
    }
}
