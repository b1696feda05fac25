//! What detection says of live interpreters, proved by reading their memory with it.
//!
//! Only here is that memory read from the outside: the interpreters stand still and say
//! themselves what has to be found.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs::File,
    io::{BufRead as _, BufReader, Read as _},
    os::unix::fs::FileExt as _,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use agent::{
    process::Process,
    python::{self, Interpreter, inspect::LayoutSource, line_table::LineTable, text},
};
use agent_common::{
    layout::{ABSENT, InstructionStyle},
    record::Text,
};
use xtask::interpreters;

/// What the interpreters run; describes what it writes.
const PROGRAM: &str = include_str!("data/stacks.py");

/// Frames owned by a generator, and the first kind of frame that is not a function's.
const OWNED_BY_GENERATOR: u8 = 1;
const FIRST_INTERNAL_OWNER: u8 = 3;

/// How long an interpreter may take to stand still.
const PATIENCE: Duration = Duration::from_secs(10);

/// Frames that are walked at most.
const MAX_FRAMES: usize = 10_000;

#[test]
fn the_stack_of_the_main_thread_is_the_interpreter_s_own() {
    check_all("main");
}

#[test]
fn the_stack_of_another_thread_is_the_interpreter_s_own() {
    check_all("thread");
}

fn check_all(place: &str) {
    for interpreter in interpreters::ensure().unwrap() {
        let (mut child, answer) = start(&interpreter, place);
        let process = Process::open(child.id()).unwrap();
        let python = python::detect(&process).unwrap();
        println!(
            "{interpreter}: {} in {}, {:?}, {} frames",
            python.version,
            python.image.display(),
            python.layout_source,
            answer.frames.len()
        );
        assert_eq!(python.version.to_string(), answer.version);
        check_images(&python);
        let source = if interpreter.minor >= 13 {
            LayoutSource::DebugOffsets
        } else {
            LayoutSource::Table
        };
        assert_eq!(python.layout_source, source);
        Memory::of(&child, &python).check(&answer);
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn a_shell_is_not_python() {
    let mut child = Command::new("sh")
        .args(["-c", "echo ready; read line"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Until the shell speaks, the child may still be a copy of this test.
    let mut ready = [0];
    child
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut ready)
        .unwrap();
    let process = Process::open(child.id()).unwrap();
    let error = python::detect(&process).unwrap_err();
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

/// What an interpreter says about itself.
struct Answer {
    version: String,
    thread_id: u64,
    argument: u64,
    /// Name, file and line, innermost first.
    frames: Vec<String>,
}

fn start(interpreter: &interpreters::Interpreter, place: &str) -> (Child, Answer) {
    let mut child = Command::new(&interpreter.path)
        .args(["-I", "-c", PROGRAM, place])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let mut lines = output
        .lines()
        .map(Result::unwrap)
        .take_while(|line| !line.is_empty());
    let answer = Answer {
        version: lines.next().unwrap(),
        thread_id: lines.next().unwrap().parse().unwrap(),
        argument: lines.next().unwrap().parse().unwrap(),
        frames: lines.collect(),
    };
    (child, answer)
}

/// The memory of an interpreter that waits.
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
        // It returns from the function that wrote the answer before it stands still.
        let deadline = Instant::now() + PATIENCE;
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
        if fields.datastack_chunk != ABSENT {
            let chunk = self.word(thread, fields.datastack_chunk);
            let top = self.word(thread, fields.datastack_top);
            assert!((chunk..top).contains(&innermost));
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
                assert_eq!(self.word(thread, fields.previous), before);
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

    /// The frames from the one at `address` on that the interpreter shows.
    fn frames(&self, mut address: u64) -> Vec<Frame> {
        let mut frames = Vec::new();
        let fields = &self.python.layout.frame;
        while address != 0 {
            assert!(frames.len() < MAX_FRAMES);
            let code = self.word(address, fields.code);
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
            let bytecode = code + u64::from(layout.code.bytecode);
            let instruction = self.word(frame, layout.frame.instruction);
            return instruction
                .wrapping_sub(bytecode)
                .cast_signed()
                .try_into()
                .unwrap();
        }
        self.number(frame, layout.frame.instruction) * i32::from(layout.frame.instruction_unit)
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
            cut: 0,
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

/// A frame that was found.
struct Frame {
    address: u64,
    shown: String,
}
