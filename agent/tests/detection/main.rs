//! Detection of live interpreters, checked by reading their memory with the detected layout.
//!
//! The interpreters write their expected stack and block.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs::File,
    io::{BufRead as _, BufReader},
    os::unix::fs::FileExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use agent::testing::{
    binaries::elf::Elf,
    process::Process,
    python::{
        self, Detector, Interpreter, layouts::LayoutSource, line_table::LineTable, text,
        versions::series_of,
    },
};
use agent_common::{
    layout::{ABSENT, GilStyle, InstructionStyle, TextStyle},
    record::Text,
};
use test_support::child;
use xtask::{interpreters, tools};

mod changing;
mod embedding;
mod unusual;

/// The program of the interpreters; its format is documented there.
const PROGRAM: &str = include_str!("../data/stacks.py");
const PROGRAM_2: &str = include_str!("../data/stacks_2.py");

/// Frames owned by a generator, and the first kind of frame that is not a function's.
const OWNED_BY_GENERATOR: u8 = 1;
const FIRST_INTERNAL_OWNER: u8 = 3;

/// How long an interpreter may take to block.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Most frames of a walk.
const MAX_FRAMES: usize = 10_000;

#[test]
fn the_stack_of_the_main_thread_equals_that_of_the_interpreter() {
    check_all("main");
}

#[test]
fn the_stack_of_another_thread_equals_that_of_the_interpreter() {
    check_all("thread");
}

fn check_all(place: &str) {
    for interpreter in interpreters::all().unwrap() {
        let (child, answer) = start(
            Command::new(&interpreter.path),
            program_for(&interpreter.path),
            place,
        );
        let process = Process::open(child.id()).unwrap();
        let python = Detector::default().detect(&process).unwrap();
        println!(
            "{interpreter}: {} in {}, {:?}, {} frames",
            python.version,
            python.image.display(),
            python.layout_source,
            answer.frames.len()
        );
        assert_eq!(python.version.to_string(), answer.version);
        check_images(&python);
        let has_debug_offsets = series_of(python.version).unwrap().debug_offsets.is_some();
        let source = if has_debug_offsets {
            LayoutSource::DebugOffsets
        } else {
            LayoutSource::Table
        };
        assert_eq!(python.layout_source, source);
        Memory::of(&child, &python).check(&answer);
        end(child);
    }
}

/// Without debugging information and symbols other than exported ones.
#[test]
fn a_stripped_interpreter_is_found_as_well() {
    let directory = tempfile::tempdir().unwrap();
    let mut checked = 0;
    for interpreter in interpreters::all().unwrap() {
        let program = program_for(&interpreter.path);
        let (child, _) = start(Command::new(&interpreter.path), program, "main");
        let process = Process::open(child.id()).unwrap();
        let complete = Detector::default().detect(&process).unwrap();
        let is_elsewhere = process.has_own_mounts().unwrap();
        end(child);
        // Interpreters in a root directory of their own are stripped by their distribution.
        if is_elsewhere {
            continue;
        }
        let file = File::open(&complete.image).unwrap();
        if Elf::read(file).unwrap().section(".symtab").is_none() {
            continue;
        }
        let stripped = directory.path().join(complete.image.file_name().unwrap());
        let mut strip = tools::STRIP.command();
        strip.arg(&complete.image).arg("-o").arg(&stripped);
        assert!(strip.status().unwrap().success());
        let command = if complete.image == complete.images[0].path {
            let mut command = Command::new(&stripped);
            command.env("PYTHONHOME", complete.image.ancestors().nth(2).unwrap());
            command
        } else {
            let mut command = Command::new(&interpreter.path);
            command.env("LD_PRELOAD", &stripped);
            command
        };
        let (child, answer) = start(command, program, "main");
        let process = Process::open(child.id()).unwrap();
        let python = Detector::default().detect(&process).unwrap();
        assert_eq!(python.image, stripped);
        assert_eq!(python.version, complete.version);
        assert_eq!(python.layout, complete.layout);
        Memory::of(&child, &python).check(&answer);
        end(child);
        checked += 1;
    }
    assert!(checked > 0);
}

#[test]
fn a_shell_is_not_python() {
    let mut child = child::start(
        Command::new("sh")
            .args(["-c", "echo ready; read line"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped()),
    );
    child::wait_for_output(&mut child);
    let process = Process::open(child.id()).unwrap();
    let error = Detector::default().detect(&process).unwrap_err();
    assert!(matches!(error, python::Error::NotPython { files, .. } if files > 0));
    drop(child.stdin.take());
    child.wait().unwrap();
}

fn check_images(python: &Interpreter) {
    let executable = &python.images[0];
    assert!(executable.path.is_absolute());
    assert!(python.images.iter().all(|image| image.start < image.end));
    assert!(python.images.iter().any(|image| image.path == python.image));
    assert!(python.images.iter().any(|image| image.build_id.is_some()));
    assert!(python.others.is_empty());
}

/// The output of an interpreter.
struct Answer {
    version: String,
    thread_id: u64,
    argument: u64,
    /// Name, file and line, innermost first.
    frames: Vec<String>,
}

fn start(mut command: Command, program: &str, place: &str) -> (Child, Answer) {
    let mut child = child::start(
        command
            .args(["-s", "-c", program, place])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped()),
    );
    let answer = read_answer(&mut child);
    (child, answer)
}

fn read_answer(child: &mut Child) -> Answer {
    let output = BufReader::new(child.stdout.take().unwrap());
    let mut lines = output
        .lines()
        .map(Result::unwrap)
        .take_while(|line| !line.is_empty());
    Answer {
        version: lines.next().unwrap(),
        thread_id: lines.next().unwrap().parse().unwrap(),
        argument: lines.next().unwrap().parse().unwrap(),
        frames: lines.collect(),
    }
}

/// Unblocks an interpreter, and waits for its end.
fn end(mut child: Child) {
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

/// The program in Python 2 or 3.
fn program_for(interpreter: &Path) -> &'static str {
    let test = "import sys; sys.exit(sys.version_info[0] != 2)";
    let mut command = Command::new(interpreter);
    if command.args(["-c", test]).status().unwrap().success() {
        PROGRAM_2
    } else {
        PROGRAM
    }
}

/// The memory of a blocked interpreter.
struct Memory<'a> {
    file: File,
    python: &'a Interpreter,
}

impl<'a> Memory<'a> {
    fn of(child: &Child, python: &'a Interpreter) -> Self {
        let file = File::open(format!("/proc/{}/mem", child.id())).unwrap();
        Self { file, python }
    }

    fn check(&self, answer: &Answer) {
        let thread = self.find_thread(answer.thread_id);
        let fields = &self.python.layout.thread;
        // It returns from the function that wrote the answer before it blocks.
        let deadline = Instant::now() + TIMEOUT;
        let frames = loop {
            let frames = self.frames(self.newest_frame(thread));
            if frames.len() == answer.frames.len() || Instant::now() > deadline {
                break frames;
            }
        };
        assert_eq!(frames.len(), answer.frames.len());
        for (frame, expected) in frames.iter().zip(&answer.frames) {
            assert_eq!(&frame.shown, expected);
        }
        let innermost = frames[0].address;
        let argument = self.word(innermost, self.python.layout.frame.locals);
        assert_eq!(argument, answer.argument);
        // All threads are blocked, or soon will be.
        while self.holds_gil(thread) {
            assert!(Instant::now() < deadline);
        }
        if fields.datastack_chunk != ABSENT {
            let chunk = self.word(thread, fields.datastack_chunk);
            let top = self.word(thread, fields.datastack_top);
            assert!((chunk..top).contains(&innermost));
        }
    }

    /// Whether the thread holds the GIL, or is attached where there is none.
    fn holds_gil(&self, thread: u64) -> bool {
        let layout = &self.python.layout;
        match layout.interpreter.gil_style {
            GilStyle::HOLDER => self.word(self.python.gil_holder.unwrap(), 0) == thread,
            GilStyle::LAST_HOLDER => {
                let holder = self.python.gil_holder.unwrap();
                let last = self.word(holder, 0);
                assert_ne!(last, 0);
                last == thread && self.number(holder, 8) != 0
            }
            _ => {
                assert_eq!(self.python.gil_holder, None);
                let attached = self.number(thread, layout.thread.attached).cast_unsigned();
                let mask = u32::from(layout.thread.attached_mask);
                attached & mask == u32::from(layout.thread.attached_value)
            }
        }
    }

    /// The state of the thread with this identifier, in the lists of all interpreters.
    fn find_thread(&self, thread_id: u64) -> u64 {
        let layout = &self.python.layout;
        let fields = &layout.thread;
        let mut interpreter = self.word(self.python.interpreters_head, 0);
        assert_ne!(interpreter, 0);
        while interpreter != 0 {
            let head = layout.interpreter.threads_head;
            let mut thread = self.word(interpreter, head);
            let mut before = 0;
            while thread != 0 {
                assert_eq!(self.word(thread, fields.interpreter), interpreter);
                if fields.previous != ABSENT {
                    assert_eq!(self.word(thread, fields.previous), before);
                }
                if self.word(thread, fields.thread_id) == thread_id {
                    return thread;
                }
                before = thread;
                thread = self.word(thread, fields.next);
            }
            interpreter = self.word(interpreter, layout.interpreter.next);
        }
        unreachable!("no thread {thread_id:#x}");
    }

    fn newest_frame(&self, thread: u64) -> u64 {
        let fields = &self.python.layout.thread;
        let frame = self.word(thread, fields.frame);
        if fields.cframe_current_frame == ABSENT {
            frame
        } else {
            self.word(frame, fields.cframe_current_frame)
        }
    }

    /// The visible frames, starting with the one at `address`.
    fn frames(&self, mut address: u64) -> Vec<Frame> {
        let mut frames = Vec::new();
        let fields = &self.python.layout.frame;
        while address != 0 {
            assert!(frames.len() < MAX_FRAMES);
            // The lowest bits are a tag from 3.14 on, and those of an address are 0.
            let code = self.word(address, fields.code) & !7;
            let owner = if fields.owner == ABSENT {
                0
            } else {
                self.bytes(address, fields.owner, 1)[0]
            };
            if owner < FIRST_INTERNAL_OWNER {
                let offset = self.instruction_offset(address, code);
                let is_started = offset >= self.first_traceable(code);
                if is_started || owner == OWNED_BY_GENERATOR {
                    frames.push(Frame {
                        address,
                        shown: self.show(code, offset),
                    });
                }
            }
            address = self.word(address, fields.previous);
        }
        frames
    }

    fn instruction_offset(&self, frame: u64, code: u64) -> i32 {
        let layout = &self.python.layout;
        if layout.frame.instruction_style == InstructionStyle::POINTER {
            let bytecode = self.bytecode(frame, code);
            let instruction = self.word(frame, layout.frame.instruction);
            return instruction
                .wrapping_sub(bytecode)
                .cast_signed()
                .try_into()
                .unwrap();
        }
        self.number(frame, layout.frame.instruction) * i32::from(layout.frame.instruction_unit)
    }

    /// The address of the bytecode that the frame runs.
    fn bytecode(&self, frame: u64, code: u64) -> u64 {
        let layout = &self.python.layout;
        let own = code + u64::from(layout.code.bytecode);
        if layout.frame.bytecode_copy == ABSENT {
            return own;
        }
        let index = self.number(frame, layout.frame.bytecode_copy);
        if index == 0 {
            return own;
        }
        // The copies follow their number.
        let copies = self.word(code, layout.code.bytecode_copies);
        self.word(copies, u16::try_from(8 * (index + 1)).unwrap())
    }

    fn first_traceable(&self, code: u64) -> i32 {
        match self.python.layout.code.first_traceable {
            ABSENT => i32::MIN,
            offset => 2 * self.number(code, offset),
        }
    }

    /// Name, file and line of the instruction.
    fn show(&self, code: u64, offset: i32) -> String {
        let layout = &self.python.layout;
        let fields = &layout.code;
        let name = self.text(self.word(code, fields.name));
        let file = self.text(self.word(code, fields.file));
        let object = self.word(code, fields.line_table);
        let bytes = self.word(object, layout.text.bytes_size);
        let table = self.bytes(object, layout.text.bytes_data, bytes.try_into().unwrap());
        let first_line = self.number(code, fields.first_line);
        let lines = LineTable::new(fields.line_table_format, first_line, &table);
        format!("{name}\t{file}\t{}", lines.line(offset).unwrap())
    }

    fn text(&self, address: u64) -> String {
        let fields = &self.python.layout.text;
        let length: usize = self.word(address, fields.length).try_into().unwrap();
        if fields.style == TextStyle::BYTES {
            return String::from_utf8(self.bytes(address, fields.ascii_data, length)).unwrap();
        }
        let state = self.number(address, fields.state).cast_unsigned();
        let kind = usize::try_from(state >> fields.kind_bit & 7).unwrap();
        assert_eq!(state >> fields.compact_bit & 1, 1);
        let data = if state >> fields.ascii_bit & 1 == 1 {
            fields.ascii_data
        } else {
            fields.compact_data
        };
        let characters = self.bytes(address, data, length * kind);
        let descriptor = Text {
            kind: kind.try_into().unwrap(),
            truncated: 0,
            bytes: characters.len().try_into().unwrap(),
        };
        text::decode(descriptor, &characters)
    }

    fn word(&self, address: u64, offset: u16) -> u64 {
        u64::from_le_bytes(self.bytes(address, offset, 8).try_into().unwrap())
    }

    fn number(&self, address: u64, offset: u16) -> i32 {
        i32::from_le_bytes(self.bytes(address, offset, 4).try_into().unwrap())
    }

    fn bytes(&self, address: u64, offset: u16, bytes: usize) -> Vec<u8> {
        let mut read = vec![0; bytes];
        self.file
            .read_exact_at(&mut read, address + u64::from(offset))
            .unwrap();
        read
    }
}

/// A frame that was read.
struct Frame {
    address: u64,
    shown: String,
}
