//! The dictionary of a request, made of the tables of a profile.

use foldhash::HashMap;

use super::{
    super::batch::Unencodable,
    schema::{self, Attribute, Dictionary, Function, Line, Link, Location, Mapping, Stack, Value},
    table::Table,
};
use crate::{
    formats::{FunctionNames, ShownNames},
    profile::{
        ExecutableId, FrameKind, FunctionId, LocationId, Process, ProcessIndex, Profile, Sample,
        SampleType, StackId,
    },
    text::printable,
};

/// A dictionary, filled while samples are encoded.
pub(super) struct DictionaryBuilder<'a> {
    profile: &'a Profile,
    names: ShownNames<'a>,
    strings: Table<String>,
    attributes: Table<Attribute>,
    mappings: Table<Mapping>,
    functions: Table<Function>,
    locations: Table<Location>,
    stacks: Table<Stack>,
    /// Stacks added already; by process, because the mapping of Python frames is its runtime.
    known_stacks: HashMap<(StackId, ProcessIndex), i32>,
    known_locations: HashMap<(LocationId, ProcessIndex), i32>,
}

impl<'a> DictionaryBuilder<'a> {
    pub(super) fn new(profile: &'a Profile, function_names: FunctionNames) -> Self {
        Self {
            profile,
            names: function_names.of(profile),
            strings: Table::new(),
            attributes: Table::new(),
            mappings: Table::new(),
            functions: Table::new(),
            locations: Table::new(),
            stacks: Table::new(),
            known_stacks: HashMap::default(),
            known_locations: HashMap::default(),
        }
    }

    pub(super) fn value_type(&mut self, of: &SampleType) -> Result<schema::ValueType, Unencodable> {
        Ok(schema::ValueType {
            r#type: self.string(of.name)?,
            unit: self.string(of.unit)?,
        })
    }

    /// Attributes of a sample: its thread, and what that waits for.
    pub(super) fn sample(&mut self, sample: &Sample) -> Result<Vec<i32>, Unencodable> {
        let thread = &self.profile.threads[sample.thread.0 as usize];
        let mut attributes = vec![self.attribute("thread.id", Value::number(thread.tid))?];
        if !thread.name.is_empty() {
            let name = Value::text(printable(&thread.name));
            attributes.push(self.attribute("thread.name", name)?);
        }
        if let Some(task) = self.profile.task_of(sample) {
            let task = Value::text(printable(task));
            attributes.push(self.attribute("task", task)?);
        }
        let markers = self.profile.leaf_markers(sample);
        if let Some(wait) = markers.wait {
            let wait = Value::text(wait.label());
            attributes.push(self.attribute("wait", wait)?);
        }
        if let Some(lock) = markers.lock {
            let lock = Value::text(printable(lock));
            attributes.push(self.attribute("lock", lock)?);
        }
        if let Some(thread) = markers.blocks {
            let thread = Value::text(printable(thread));
            attributes.push(self.attribute("blocks", thread)?);
        }
        if markers.collects_garbage {
            attributes.push(self.attribute("gc", Value::text("true"))?);
        }
        if let Some(memory) = markers.memory {
            attributes.push(self.attribute("memory", Value::text(memory.label()))?);
        }
        if let Some(class) = markers.exception {
            let class = Value::text(printable(class));
            attributes.push(self.attribute("exception.type", class)?);
        }
        Ok(attributes)
    }

    pub(super) fn stack(&mut self, id: StackId, process: ProcessIndex) -> Result<i32, Unencodable> {
        if let Some(index) = self.known_stacks.get(&(id, process)) {
            return Ok(*index);
        }
        let frames = self.profile.stacks[id.0 as usize].iter();
        let locations = frames.map(|frame| self.location(*frame, process));
        let locations = locations.collect::<Result<_, _>>()?;
        let index = self.stacks.index(Stack { locations })?;
        self.known_stacks.insert((id, process), index);
        Ok(index)
    }

    fn location(&mut self, id: LocationId, process: ProcessIndex) -> Result<i32, Unencodable> {
        if let Some(index) = self.known_locations.get(&(id, process)) {
            return Ok(*index);
        }
        let location = self.profile.location(id);
        let lines = location.lines.iter().map(|line| {
            Ok(Line {
                function: self.function(line.function)?,
                line: line.line.map_or(0, |line| line.get().into()),
            })
        });
        let lines = lines.collect::<Result<_, _>>()?;
        let (mapping, address) = match location.code {
            Some(code) => (self.executable(code.executable)?, code.address),
            None => (self.runtime(process)?, 0),
        };
        let attributes = match self.frame_type(id) {
            Some(kind) => vec![self.attribute("profile.frame.type", Value::text(kind))?],
            None => Vec::new(),
        };
        let index = self.locations.index(Location {
            mapping,
            address,
            lines,
            attributes,
        })?;
        self.known_locations.insert((id, process), index);
        Ok(index)
    }

    /// Value of the attribute `profile.frame.type`; [`None`] for a marker.
    fn frame_type(&self, id: LocationId) -> Option<&'static str> {
        let location = self.profile.location(id);
        if let Some(line) = location.lines.first() {
            return match self.profile.function(line.function).kind {
                FrameKind::Python => Some("cpython"),
                FrameKind::Native => Some("native"),
                FrameKind::Kernel => Some("kernel"),
                FrameKind::Marker => None,
            };
        }
        let executable = self.profile.executable(location.code?.executable);
        Some(if executable.is_kernel() {
            "kernel"
        } else {
            "native"
        })
    }

    fn function(&mut self, id: FunctionId) -> Result<i32, Unencodable> {
        let function = self.profile.function(id);
        let shown = self.names.get(id);
        let plain = (shown != function.name).then(|| printable(&function.name));
        let name = printable(shown).into_owned();
        let name = self.string(&name)?;
        let system_name = plain.map_or(Ok(0), |plain| self.string(&plain))?;
        let filename = self.string(&printable(&function.file))?;
        self.functions.index(Function {
            name,
            system_name,
            filename,
            start_line: function.first_line.map_or(0, |line| line.get().into()),
        })
    }

    fn executable(&mut self, id: ExecutableId) -> Result<i32, Unencodable> {
        let executable = self.profile.executable(id);
        let path = executable.path.to_string_lossy();
        let name = if executable.is_kernel() || path.is_empty() {
            executable.name()
        } else {
            path
        };
        let attributes = match &executable.build_id {
            Some(id) => {
                let id = Value::text(printable(id));
                vec![self.attribute("process.executable.build_id.gnu", id)?]
            }
            None => Vec::new(),
        };
        let filename = self.string(&printable(&name))?;
        self.mappings.index(Mapping {
            memory_start: executable.start,
            memory_limit: executable.limit,
            file_offset: executable.file_offset,
            filename,
            attributes,
        })
    }

    /// Mapping of Python frames, which lie in no mapped file: only a name, for example
    /// `[cpython 3.12.1]`.
    fn runtime(&mut self, process: ProcessIndex) -> Result<i32, Unencodable> {
        let Process { runtime, .. } = &self.profile.processes[process.0 as usize];
        if runtime.is_empty() {
            return Ok(0);
        }
        let filename = self.string(&printable(&format!("[{}]", runtime.to_lowercase())))?;
        self.mappings.index(Mapping {
            filename,
            ..Mapping::default()
        })
    }

    fn attribute(&mut self, key: &str, value: Value) -> Result<i32, Unencodable> {
        let key = self.string(key)?;
        let value = Some(value);
        self.attributes.index(Attribute { key, value })
    }

    fn string(&mut self, text: &str) -> Result<i32, Unencodable> {
        self.strings.index(text.to_owned())
    }

    pub(super) fn finish(self) -> Dictionary {
        Dictionary {
            mappings: self.mappings.into_entries(),
            locations: self.locations.into_entries(),
            functions: self.functions.into_entries(),
            links: vec![Link {}],
            strings: self.strings.into_entries(),
            attributes: self.attributes.into_entries(),
            stacks: self.stacks.into_entries(),
        }
    }
}
