//! Reads the profile of a pprof file.

use std::{
    collections::{BTreeMap, HashMap},
    num::NonZeroU32,
    path::{Path, PathBuf},
};

use prost::Message;

use super::{
    comments::Comments,
    error::{PprofReadError, malformed},
    outline::{Outline, Reading, amount, check_total, tag},
};
use crate::{
    aggregate::{Interner, index},
    formats::pprof::{
        names::{PROCESS_ID, PROCESS_NAME, TASK, THREAD_ID, THREAD_NAME},
        schema,
        wire::Fields,
    },
    profile::{
        Amount, CodeAddress, Executable, ExecutableId, ExecutableKind, FrameKind, Function,
        FunctionId, Image, Line, Location, LocationId, Process, ProcessIndex, Profile, Sample,
        Sampled, Stack, StackId, TaskIndex, Thread, ThreadIndex,
    },
};

/// Most bytes of a message in a table; the longest is a sample with a deep stack.
const MAX_MESSAGE_BYTES: usize = 64 << 10;

/// Most bytes of one in a file of another tool.
const MAX_FOREIGN_MESSAGE_BYTES: usize = 1 << 20;

/// Stands for a frame of which a file of another tool says nothing.
const UNKNOWN: &str = "[unknown]";

/// First address of the kernel, on all 64-bit architectures.
const KERNEL_START: u64 = 1 << 63;

/// Label with the name of the service.
const SERVICE_NAME: &str = "service_name";

/// Reads the message of a file: the profile, and the types of values with the index of the one that is read.
pub(super) fn read(
    message: &[u8],
    reading: Reading<'_>,
) -> Result<(Profile, (Vec<String>, usize)), PprofReadError> {
    let outline = Outline::of(message, reading)?;
    let comments = outline.comments()?;
    let decoder = Decoder {
        max_bytes: if outline.is_lenient {
            MAX_FOREIGN_MESSAGE_BYTES
        } else {
            MAX_MESSAGE_BYTES
        },
    };
    let mut reader = ModelReader {
        mappings: decoder.table(message, tag::MAPPING, |mapping: &schema::Mapping| {
            mapping.id
        })?,
        functions: decoder.table(message, tag::FUNCTION, |function: &schema::Function| {
            function.id
        })?,
        decoder,
        outline,
        tables: ModelTables::default(),
    };
    let mut locations = HashMap::new();
    for location in Fields::of(message).all(tag::LOCATION) {
        let location: schema::Location = decoder.decode(location)?;
        locations.insert(location.id, reader.location(&location)?);
    }
    let first = reader.first_image(message)?;
    let mut processes = ProcessTable::new(&comments, first);
    if !reader.outline.is_agents {
        processes.name_by_program();
    }
    for sample in Fields::of(message).all(tag::SAMPLE) {
        reader.sample(&decoder.decode(sample)?, &locations, &mut processes)?;
    }
    let ModelReader {
        outline, tables, ..
    } = reader;
    let profile = Profile {
        start: outline.start,
        duration: outline.duration,
        kind: outline.kind,
        period: outline.period,
        labels: comments.labels,
        processes: processes.known,
        executables: tables.executables.into_items(),
        functions: tables.functions.into_items(),
        locations: tables.locations.into_items(),
        stacks: tables.stacks.into_items(),
        threads: tables.threads.into_items(),
        tasks: tables.tasks.into_items(),
        samples: tables
            .counts
            .into_iter()
            .map(|(sampled, amount)| Sample::new(sampled, amount))
            .collect(),
        timeline: None,
        unwind_stats: Vec::new(),
        losses: comments.losses,
        filtered_out: comments.filtered_out,
    };
    Ok((profile, outline.types))
}

/// Decodes messages of tables.
#[derive(Clone, Copy)]
struct Decoder {
    /// Most bytes of one.
    max_bytes: usize,
}

impl Decoder {
    fn decode<M: Message + Default>(self, message: &[u8]) -> Result<M, PprofReadError> {
        if message.len() > self.max_bytes {
            return Err(malformed("bytes"));
        }
        M::decode(message).map_err(|_| malformed("bytes"))
    }

    /// The messages of a table, by id.
    fn table<M: Message + Default>(
        self,
        message: &[u8],
        tag: u64,
        id: impl Fn(&M) -> u64,
    ) -> Result<HashMap<u64, M>, PprofReadError> {
        let messages = Fields::of(message).all(tag);
        messages
            .map(|message| {
                let message = self.decode(message)?;
                Ok((id(&message), message))
            })
            .collect()
    }
}

/// Tables of the profile being built.
#[derive(Default)]
struct ModelTables {
    executables: Interner<Executable>,
    functions: Interner<Function>,
    locations: Interner<Location>,
    stacks: Interner<Stack>,
    threads: Interner<Thread>,
    tasks: Interner<String>,
    counts: BTreeMap<Sampled, Amount>,
    total: Amount,
}

/// A location that was read.
#[derive(Clone, Copy)]
struct ReadLocation {
    id: LocationId,
    is_python: bool,
}

struct ModelReader<'a> {
    decoder: Decoder,
    outline: Outline<'a>,
    mappings: HashMap<u64, schema::Mapping>,
    functions: HashMap<u64, schema::Function>,
    tables: ModelTables,
}

impl ModelReader<'_> {
    fn location(&mut self, location: &schema::Location) -> Result<ReadLocation, PprofReadError> {
        let is_lenient = self.outline.is_lenient;
        let is_jit = || {
            let mapping = self.mappings.get(&location.mapping_id);
            let file = mapping.and_then(|it| self.outline.text_at(it.filename).ok());
            file.is_some_and(|file| kind_and_path(file, 0).0 == ExecutableKind::Anonymous)
        };
        let code = match location.address {
            // All code of a JIT compiler without names is at no address.
            0 if !(self.outline.is_agents && is_jit()) => None,
            // Other tools may not know where code is from.
            _ if is_lenient && !self.mappings.contains_key(&location.mapping_id) => None,
            address => Some(self.code(location.mapping_id, address)?),
        };
        if code.is_none() && location.line.len() != 1 && !is_lenient {
            return Err(malformed("locations"));
        }
        let mut is_python = false;
        let mut lines = Vec::with_capacity(location.line.len());
        for line in &location.line {
            let line_number = self.line_number(line.line)?;
            let function = self.function(line.function_id, line_number, code)?;
            // What has no address is of any language in a file of another tool.
            let is_certain = self.outline.is_agents || has_extension_of_python(&function.file);
            is_python |= function.kind == FrameKind::Python && is_certain;
            lines.push(Line {
                function: FunctionId(self.tables.functions.index(function)),
                line: line_number,
            });
        }
        if lines.is_empty() && code.is_none() {
            let function = unnamed(location.address);
            lines.push(Line {
                function: FunctionId(self.tables.functions.index(function)),
                line: None,
            });
        }
        let location = Location {
            lines: lines.into(),
            code,
        };
        Ok(ReadLocation {
            id: LocationId(self.tables.locations.index(location)),
            is_python,
        })
    }

    fn function(
        &self,
        id: u64,
        line: Option<NonZeroU32>,
        code: Option<CodeAddress>,
    ) -> Result<Function, PprofReadError> {
        let function = self.functions.get(&id);
        let function = function.ok_or_else(|| malformed("functions"))?;
        let name = match self.outline.text_at(function.system_name)? {
            // The name has its module too.
            plain if !plain.is_empty() && self.outline.is_agents => plain,
            _ => self.outline.text_at(function.name)?,
        };
        let file = self.outline.text_at(function.filename)?;
        let first_line = self.line_number(function.start_line)?;
        let kind = match code {
            Some(code) if self.tables.executables.get(code.executable.0).is_kernel() => {
                FrameKind::Kernel
            }
            Some(_) => FrameKind::Native,
            None => {
                let is_bracketed = name.starts_with('[') && name.ends_with(']');
                let is_nowhere = file.is_empty() && first_line.is_none() && line.is_none();
                if is_bracketed && is_nowhere {
                    FrameKind::Marker
                } else {
                    FrameKind::Python
                }
            }
        };
        Ok(Function {
            name: name.to_owned(),
            file: file.to_owned(),
            first_line,
            kind,
        })
    }

    fn code(&mut self, mapping: u64, address: u64) -> Result<CodeAddress, PprofReadError> {
        let mapping = self.mappings.get(&mapping);
        let mapping = mapping.ok_or_else(|| malformed("mappings"))?;
        let name = self.outline.text_at(mapping.filename)?;
        let (kind, path) = kind_and_path(name, address);
        let executable = Executable {
            path: path.into(),
            build_id: self.build_id(mapping)?,
            kind,
            start: mapping.memory_start,
            limit: mapping.memory_limit,
            file_offset: mapping.file_offset,
        };
        Ok(CodeAddress {
            executable: ExecutableId(self.tables.executables.index(executable)),
            address,
        })
    }

    fn build_id(&self, mapping: &schema::Mapping) -> Result<Option<String>, PprofReadError> {
        let build_id = self.outline.text_at(mapping.build_id)?;
        Ok((!build_id.is_empty()).then(|| build_id.to_owned()))
    }

    /// The executable of the first process, if the file has one.
    fn first_image(&self, message: &[u8]) -> Result<Option<Image>, PprofReadError> {
        let Some(mapping) = Fields::of(message).all(tag::MAPPING).next() else {
            return Ok(None);
        };
        let mapping: schema::Mapping = self.decoder.decode(mapping)?;
        let path = self.outline.text_at(mapping.filename)?;
        let image = Image {
            start: mapping.memory_start,
            end: mapping.memory_limit,
            file_offset: mapping.file_offset,
            path: path.into(),
            build_id: self.build_id(&mapping)?,
        };
        Ok((!path.is_empty() && !path.starts_with('[')).then_some(image))
    }

    fn line_number(&self, number: i64) -> Result<Option<NonZeroU32>, PprofReadError> {
        match u32::try_from(number) {
            Ok(number) => Ok(NonZeroU32::new(number)),
            Err(_) if self.outline.is_lenient => Ok(None),
            Err(_) => Err(malformed("lines")),
        }
    }

    /// The number of a process or a thread; other tools may have other numbers by that name.
    fn id(&self, number: i64) -> Result<u32, PprofReadError> {
        match u32::try_from(number) {
            Err(_) if self.outline.is_lenient => Ok(0),
            number => number.map_err(|_| malformed("labels")),
        }
    }

    fn sample(
        &mut self,
        sample: &schema::Sample,
        locations: &HashMap<u64, ReadLocation>,
        processes: &mut ProcessTable,
    ) -> Result<(), PprofReadError> {
        let measured = amount(&sample.value, self.outline.columns)?;
        self.tables.total += measured;
        check_total(self.tables.total)?;
        if measured == Amount::default() {
            return Ok(());
        }
        let mut labels = SampleLabels::default();
        for label in &sample.label {
            match self.outline.text_at(label.key)? {
                THREAD_ID => labels.tid = self.id(label.num)?,
                PROCESS_ID => labels.pid = self.id(label.num)?,
                THREAD_NAME => labels.thread = self.outline.text_at(label.str)?,
                TASK => labels.task = self.outline.text_at(label.str)?,
                PROCESS_NAME => labels.process = self.outline.text_at(label.str)?,
                _ => {}
            }
        }
        let mut stack = Vec::with_capacity(sample.location_id.len());
        let mut is_python = false;
        for id in &sample.location_id {
            let location = locations.get(id).ok_or_else(|| malformed("stacks"))?;
            is_python |= location.is_python;
            stack.push(location.id);
        }
        let process = processes.index(labels.pid, labels.process);
        processes.known[process.0 as usize].is_python |= is_python;
        let thread = ThreadIndex(self.tables.threads.index(Thread {
            process,
            tid: labels.tid,
            name: labels.thread.to_owned(),
        }));
        let stack = StackId(self.tables.stacks.index(stack.into()));
        // The sum of all counts was checked.
        let tasks = &mut self.tables.tasks;
        let sampled = Sampled {
            thread,
            stack,
            task: (!labels.task.is_empty())
                .then(|| TaskIndex(tasks.index_of(labels.task, || labels.task.to_owned()))),
        };
        *self.tables.counts.entry(sampled).or_default() += measured;
        Ok(())
    }
}

/// Labels of a sample.
#[derive(Default)]
struct SampleLabels<'a> {
    tid: u32,
    thread: &'a str,
    pid: u32,
    process: &'a str,
    task: &'a str,
}

/// The processes of a file.
struct ProcessTable {
    known: Vec<Process>,
    /// By id and name.
    indices: HashMap<(u32, String), ProcessIndex>,
    /// The process of samples without a label of the process.
    unnamed: Process,
    unnamed_index: Option<ProcessIndex>,
    /// Whether a sample had a label of its process.
    has_process_labels: bool,
}

impl ProcessTable {
    fn new(comments: &Comments, first: Option<Image>) -> Self {
        let mut known = comments.processes.clone();
        if let Some(process) = known.first_mut() {
            process.images = first.iter().cloned().collect();
        }
        let indices = (0..).zip(&known);
        let indices = indices
            .map(|(index, process)| ((process.pid, process.name.clone()), ProcessIndex(index)));
        let indices = indices.collect();
        let is_alone = known.len() == 1 && !comments.has_more_processes;
        Self {
            unnamed: together(comments, first),
            unnamed_index: is_alone.then_some(ProcessIndex(0)),
            known,
            indices,
            has_process_labels: false,
        }
    }

    /// Names the process that no other name is known of by its program.
    fn name_by_program(&mut self) {
        let program = self.unnamed.images.first().map(|image| &image.path);
        if let Some(name) = program.and_then(|path| path.file_name())
            && self.unnamed.name.is_empty()
        {
            self.unnamed.name = name.to_string_lossy().into_owned();
        }
    }

    fn index(&mut self, pid: u32, name: &str) -> ProcessIndex {
        if pid != 0 || !name.is_empty() {
            self.has_process_labels = true;
            let known = &mut self.known;
            let key = (pid, name.to_owned());
            return *self.indices.entry(key).or_insert_with(|| {
                known.push(Process {
                    pid,
                    name: name.to_owned(),
                    ..Process::default()
                });
                ProcessIndex(index(known.len() - 1))
            });
        }
        *self.unnamed_index.get_or_insert_with(|| {
            // One process stands for all, so those of the comments are removed.
            if !self.has_process_labels {
                self.known.clear();
                self.indices.clear();
            }
            self.known.push(self.unnamed.clone());
            ProcessIndex(index(self.known.len() - 1))
        })
    }
}

/// One process that stands for all processes of a file.
fn together(comments: &Comments, first: Option<Image>) -> Process {
    let runtimes = comments.processes.iter().map(|process| &process.runtime);
    let mut runtimes = runtimes.filter(|runtime| !runtime.is_empty());
    let first_runtime = runtimes.next();
    let is_same = runtimes.all(|runtime| Some(runtime) == first_runtime);
    Process {
        pid: 0,
        parent: None,
        name: comments
            .labels
            .get(SERVICE_NAME)
            .cloned()
            .unwrap_or_default(),
        is_python: first_runtime.is_some(),
        runtime: first_runtime
            .filter(|_| is_same)
            .cloned()
            .unwrap_or_default(),
        executable: PathBuf::new(),
        images: first.into_iter().collect(),
    }
}

/// Kind and path of an executable, from the name of its mapping.
fn kind_and_path(name: &str, address: u64) -> (ExecutableKind, &str) {
    let in_brackets = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    match in_brackets {
        Some("kernel.kallsyms") => (ExecutableKind::Kernel, ""),
        Some(module) if address >= KERNEL_START => (ExecutableKind::KernelModule, module),
        Some("vdso") => (ExecutableKind::Vdso, ""),
        Some("jit") => (ExecutableKind::Anonymous, ""),
        _ => (ExecutableKind::File, name),
    }
}

/// The function of a frame of which a file says at most the address.
fn unnamed(address: u64) -> Function {
    let (name, kind) = match address {
        0 => (UNKNOWN.to_owned(), FrameKind::Marker),
        address => (format!("{address:#x}"), FrameKind::Native),
    };
    Function {
        name,
        file: String::new(),
        first_line: None,
        kind,
    }
}

fn has_extension_of_python(file: &str) -> bool {
    Path::new(file)
        .extension()
        .is_some_and(|extension| extension == "py")
}
