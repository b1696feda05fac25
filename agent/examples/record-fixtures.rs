//! Records the sessions that `tests/golden` replays: `cargo xtask record-fixtures`.
//!
//! The sampled programs are in a folder of their own, so that no path of the machine gets into the
//! fixtures. Recorded are only these programs and the threads of the kernel: of their files the
//! symbols and the debug information, of `/proc/kallsyms` the sampled functions.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    env,
    error::Error,
    ffi::OsStr,
    fs::{self, File},
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use agent::testing::{
    process::RECORDED_VDSO,
    session::{
        recorder::{FILE, PROGRAMS},
        recording::Entry,
    },
};
use agent_common::{decode::decode, decoded::Record, maps::KERNEL_THREADS, record::NativeKind};
use flate2::{Compression, write::GzEncoder};
use rustix::process::{Pid, Signal, kill_process};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Where the programs are while they are recorded.
const FOLDER: &str = "/opt/fixtures";

/// Address of the metrics of the agent of the host.
const LISTEN: &str = "127.0.0.1:7079";

/// Parts of the standard library that the programs do not need.
const WITHOUT: [&str; 8] = [
    "test",
    "idlelib",
    "tkinter",
    "lib2to3",
    "ensurepip",
    "site-packages",
    "turtledemo",
    "pydoc_data",
];

/// Prefix of extension modules that keep their debug information.
const WITH_DEBUG_INFO: &str = "_json.";

fn main() -> Result<()> {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    let [agent, python] = &arguments[..] else {
        return Err("usage: record-fixtures AGENT PYTHON".into());
    };
    if Path::new(FOLDER).exists() {
        return Err(format!("{FOLDER} is there: remove it").into());
    }
    let raw = tempfile::tempdir()?;
    let recorded = record(Path::new(agent), Path::new(python), raw.path());
    fs::remove_dir_all(FOLDER)?;
    recorded
}

/// Records both runs and packs them.
fn record(agent: &Path, python: &Path, raw: &Path) -> Result<()> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let programs = Programs::install(python, &manifest)?;
    let agent = |name: &str| {
        let mut command = Command::new(agent);
        command.env(FILE, raw.join(name)).env(PROGRAMS, FOLDER);
        command
    };

    let service = programs.service()?;
    let status = agent("capture")
        .args(["--rate", "199", "--duration", "5s", "-o"])
        .arg(raw.join("profile.pb.gz"))
        .args(["--pid", &service.0.id().to_string()])
        .status()?;
    if !status.success() {
        return Err("the capture has failed".into());
    }
    drop(service);

    let running = [
        programs.service()?,
        Programs::native()?,
        programs.perf_map()?,
    ];
    enter_group(&running[0], "system.slice/orders.service")?;
    let exporters = format!("{{local: {{type: file, folder: {}/out}}}}", raw.display());
    let mut host = agent("host")
        .args(["run", "--listen", LISTEN, "--config"])
        .arg(manifest.join("host.yaml"))
        .args(["--exporters", &exporters])
        .spawn()
        .map(Running)?;
    while metrics().is_err() {
        thread::sleep(Duration::from_millis(100));
        if host.0.try_wait()?.is_some() {
            return Err("the agent of the host has failed".into());
        }
    }
    thread::sleep(Duration::from_secs(5));
    metrics()?;
    let pid = Pid::from_raw(host.0.id().cast_signed()).ok_or("no id")?;
    kill_process(pid, Signal::TERM)?;
    host.0.wait()?;

    let data = manifest.join("data");
    if data.exists() {
        fs::remove_dir_all(&data)?;
    }
    let mut pack = Pack::new(data);
    pack.recording(raw, "capture")?;
    pack.recording(raw, "host")?;
    pack.machine()?;
    for program in &running {
        let map = format!("/tmp/perf-{}.map", program.0.id());
        if let Ok(contents) = fs::read(&map) {
            pack.file(&map, &contents)?;
            fs::remove_file(&map)?;
        }
    }
    Ok(())
}

/// Makes the agent read its counters.
fn metrics() -> Result<()> {
    let mut stream = TcpStream::connect(LISTEN)?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: x\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    if answer.contains("profiling_agent_samples_total") {
        return Ok(());
    }
    Err("no metrics".into())
}

/// Puts a program into a control group of systemd's hierarchy.
fn enter_group(program: &Running, group: &str) -> Result<()> {
    let group = Path::new("/sys/fs/cgroup/systemd").join(group);
    fs::create_dir_all(&group)?;
    fs::write(group.join("cgroup.procs"), program.0.id().to_string())?;
    Ok(())
}

/// The programs in [`FOLDER`].
struct Programs {
    python: PathBuf,
}

/// A program that runs until it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Programs {
    fn install(python: &Path, manifest: &Path) -> Result<Self> {
        let python = fs::canonicalize(python)?;
        let name = python.file_name().ok_or("no name")?;
        let prefix = python.parent().and_then(Path::parent).ok_or("no prefix")?;
        let folder = Path::new(FOLDER);
        copy(&python, &folder.join("bin").join(name))?;
        let library = prefix.join("lib").join(name);
        copy_folder(&library, &folder.join("lib").join(name))?;
        for entry in fs::read_dir(prefix.join("lib"))?.flatten() {
            let name = entry.file_name();
            if name.to_string_lossy().starts_with("libpython") && entry.path().is_file() {
                copy(&entry.path(), &folder.join("lib").join(name))?;
            }
        }
        for program in ["service.py", "perf_map.py"] {
            copy(
                &manifest.join("programs").join(program),
                &folder.join(program),
            )?;
        }
        let mut compiler = Command::new("cc");
        compiler
            .args(["-O2", "-g", "-pthread", "-o", "native", "native.c"])
            .current_dir(folder);
        copy(
            &manifest.join("programs/native.c"),
            &folder.join("native.c"),
        )?;
        if !compiler.status()?.success() {
            return Err("cc has failed".into());
        }
        Ok(Self {
            python: folder.join("bin").join(name),
        })
    }

    fn service(&self) -> Result<Running> {
        let mut command = Command::new(&self.python);
        command.arg("-B").arg(Path::new(FOLDER).join("service.py"));
        start(&mut command)
    }

    fn perf_map(&self) -> Result<Running> {
        let mut command = Command::new(&self.python);
        let program = Path::new(FOLDER).join("perf_map.py");
        command.args(["-B", "-X", "perf"]).arg(program);
        start(&mut command)
    }

    fn native() -> Result<Running> {
        start(&mut Command::new(Path::new(FOLDER).join("native")))
    }
}

/// Starts a program in an environment that is the same on all machines.
fn start(command: &mut Command) -> Result<Running> {
    let child = command
        .current_dir("/")
        .env_clear()
        .env("LC_ALL", "C.UTF-8")
        .env("LD_LIBRARY_PATH", Path::new(FOLDER).join("lib"))
        .env("OTEL_RESOURCE_ATTRIBUTES", "service.version=1.2.3")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut running = Running(child);
    let stdout = running.0.stdout.as_mut().ok_or("no output")?;
    BufReader::new(stdout).read_line(&mut String::new())?;
    Ok(running)
}

/// Copies a file, without debug information unless that is recorded.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to.parent().ok_or("no folder")?)?;
    fs::copy(from, to)?;
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    let mut start = [0; 4];
    let is_elf = File::open(to)?.read_exact(&mut start).is_ok() && &start == b"\x7fELF";
    if is_elf && !name.starts_with(WITH_DEBUG_INFO) {
        let mut strip = Command::new("objcopy");
        if !strip.arg("--strip-debug").arg(to).status()?.success() {
            return Err("objcopy has failed".into());
        }
    }
    Ok(())
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from)?.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let is_left_out = |name: &OsStr| {
            let name = name.to_string_lossy();
            WITHOUT.contains(&&*name) || name.starts_with("config-") || name == "__pycache__"
        };
        if path.is_dir() && !is_left_out(&name) {
            copy_folder(&path, &to.join(name))?;
        } else if path.is_file() {
            copy(&path, &to.join(name))?;
        }
    }
    Ok(())
}

/// The fixtures while they are packed.
struct Pack {
    folder: PathBuf,
    /// Addresses of kernel frames.
    kernel: BTreeSet<u64>,
    /// Files of native frames.
    files: BTreeSet<PathBuf>,
}

impl Pack {
    fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            kernel: BTreeSet::new(),
            files: BTreeSet::new(),
        }
    }

    /// Packs the part of a recording that is of the programs or of the threads of the kernel.
    fn recording(&mut self, raw: &Path, name: &str) -> Result<()> {
        let entries = Entry::read_all(BufReader::new(File::open(raw.join(name))?))?;
        let kept = self.select(entries);
        let mut packed = Vec::new();
        for entry in &kept {
            entry.write(&mut packed)?;
        }
        write(&self.folder.join(name).with_extension("gz"), &packed)
    }

    fn select(&mut self, entries: Vec<Entry>) -> Vec<Entry> {
        let mut pids = HashSet::from([KERNEL_THREADS]);
        let mut stacks = HashSet::new();
        let mut symbols = HashSet::new();
        let mut numbers = HashSet::new();
        for entry in &entries {
            if let Entry::Finding(finding) = entry {
                pids.insert(finding.pid);
            }
        }
        for record in entries.iter().filter_map(decoded) {
            match record {
                Record::Sample(sample) if pids.contains(&sample.tgid) => {
                    stacks.extend([sample.stack, sample.native_stack]);
                }
                Record::ThreadName(thread) if pids.contains(&thread.head.tgid) => {
                    symbols.insert(thread.head.root);
                }
                _ => {}
            }
        }
        for record in entries.iter().filter_map(decoded) {
            match record {
                Record::Stack(stack) if stacks.contains(&stack.hash) => {
                    symbols.extend(stack.frames.iter().map(|frame| frame.symbol));
                }
                Record::NativeStack(stack) if stacks.contains(&stack.hash) => {
                    for frame in &stack.frames {
                        match frame.kind {
                            NativeKind::KERNEL => drop(self.kernel.insert(frame.address)),
                            NativeKind::FILE => drop(numbers.insert(frame.id_or_count)),
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        let is_kept = |entry: &Entry| match (entry, decoded(entry)) {
            (Entry::Executable(executable), _) => numbers.contains(&executable.number),
            (Entry::Event(event), _) => pids.contains(&event.pid),
            (Entry::Finding(_) | Entry::Counters(_), _) => true,
            (Entry::Record(_), None) => false,
            (Entry::Record(_), Some(record)) => match record {
                Record::Sample(sample) => pids.contains(&sample.tgid),
                Record::Stack(stack) => stacks.contains(&stack.hash),
                Record::NativeStack(stack) => stacks.contains(&stack.hash),
                Record::CodeObject(code) | Record::LineTablePiece(code) => {
                    symbols.contains(&code.head.symbol)
                }
                Record::ThreadName(thread) => pids.contains(&thread.head.tgid),
                Record::ProcessEvent(event) => pids.contains(&event.tgid),
                Record::AbsentPage(page) => pids.contains(&page.tgid),
                Record::WantedTable(wanted) => pids.contains(&wanted.tgid),
            },
        };
        let kept: Vec<_> = entries.into_iter().filter(is_kept).collect();
        let files = kept.iter().filter_map(|entry| match entry {
            Entry::Executable(executable) => Some(executable.path.clone()),
            _ => None,
        });
        self.files.extend(files);
        kept
    }

    /// Packs the files of the machine that frames are symbolized with.
    fn machine(&mut self) -> Result<()> {
        let functions = sampled_functions(&fs::read_to_string("/proc/kallsyms")?, &self.kernel);
        self.file("/proc/kallsyms", functions.as_bytes())?;
        self.file("/sys/kernel/notes", &fs::read("/sys/kernel/notes")?)?;
        for path in &self.files {
            if path == Path::new("[vdso]") {
                self.file(RECORDED_VDSO, &vdso()?)?;
            } else {
                let reduced = reduced(fs::read(path)?).ok_or("not an ELF file")?;
                self.file(path, &reduced)?;
            }
        }
        Ok(())
    }

    /// Packs a file of the machine.
    fn file(&self, path: impl AsRef<Path>, contents: &[u8]) -> Result<()> {
        let path = path.as_ref().strip_prefix("/")?;
        let mut packed = self.folder.join("machine").join(path).into_os_string();
        packed.push(".gz");
        write(Path::new(&packed), contents)
    }
}

fn decoded(entry: &Entry) -> Option<Record<'_>> {
    match entry {
        Entry::Record(bytes) => decode(bytes).ok(),
        _ => None,
    }
}

fn write(path: &Path, contents: &[u8]) -> Result<()> {
    fs::create_dir_all(path.parent().ok_or("no folder")?)?;
    let mut packed = GzEncoder::new(File::create(path)?, Compression::best());
    packed.write_all(contents)?;
    packed.finish()?;
    Ok(())
}

/// The lines of `/proc/kallsyms` of the functions that have these addresses.
fn sampled_functions(table: &str, addresses: &BTreeSet<u64>) -> String {
    let mut functions = BTreeMap::<u64, String>::new();
    for line in table.lines() {
        let mut fields = line.split_whitespace();
        let address = fields
            .next()
            .and_then(|it| u64::from_str_radix(it, 16).ok());
        let is_code = fields.next().is_some_and(|kind| "tTwW".contains(kind));
        if let (Some(address), true) = (address, is_code) {
            let lines = functions.entry(address).or_default();
            lines.push_str(line);
            lines.push('\n');
        }
    }
    let starts = addresses.iter().filter_map(|address| {
        let (start, _) = functions.range(..=*address).next_back()?;
        Some(*start)
    });
    let starts: BTreeSet<_> = starts.collect();
    starts
        .iter()
        .map(|start| functions[start].as_str())
        .collect()
}

/// The vDSO.
fn vdso() -> Result<Vec<u8>> {
    let maps = fs::read_to_string("/proc/self/maps")?;
    let line = maps.lines().find(|line| line.ends_with("[vdso]"));
    let range = line.and_then(|line| line.split_whitespace().next());
    let (start, end) = range.and_then(|it| it.split_once('-')).ok_or("no vDSO")?;
    let start = u64::from_str_radix(start, 16)?;
    let end = u64::from_str_radix(end, 16)?;
    let mut bytes = vec![0; usize::try_from(end - start)?];
    File::open("/proc/self/mem")?.read_exact_at(&mut bytes, start)?;
    Ok(bytes)
}

/// An ELF file with zeros for all but its headers, symbols, notes and debug information.
fn reduced(mut file: Vec<u8>) -> Option<Vec<u8>> {
    let number = |offset: usize, bytes: usize| {
        let mut number = [0; 8];
        number[..bytes].copy_from_slice(file.get(offset..offset + bytes)?);
        usize::try_from(u64::from_le_bytes(number)).ok()
    };
    let (headers, size) = (number(0x20, 8)?, number(0x36, 2)? * number(0x38, 2)?);
    let (sections, count) = (number(0x28, 8)?, number(0x3c, 2)?);
    let section = |index: usize| sections + index * 64;
    let names = number(section(number(0x3e, 2)?) + 0x18, 8)?;
    let mut kept = vec![0..64, headers..headers + size, sections..section(count)];
    for index in 0..count {
        let at = section(index);
        let start = names + number(at, 4)?;
        let name = file.get(start..)?.split(|byte| *byte == 0).next()?;
        // Symbols, strings, notes; debug sections by name, unless they are not in the file.
        let is_symbols = matches!(number(at + 4, 4)?, 2 | 3 | 7 | 11);
        let is_debug = name.starts_with(b".debug_") || name.starts_with(b".gnu_debug");
        if is_symbols || (is_debug && number(at + 4, 4)? != 8) {
            let start = number(at + 0x18, 8)?;
            kept.push(start..start + number(at + 0x20, 8)?);
        }
    }
    kept.sort_by_key(|range| range.start);
    let mut end = 0;
    for range in kept {
        if end < range.start {
            file[end..range.start].fill(0);
        }
        end = end.max(range.end);
    }
    let end = end.min(file.len());
    file[end..].fill(0);
    Some(file)
}
