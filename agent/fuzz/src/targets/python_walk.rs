//! The walk of the Python frames of all threads, over hostile memory, with the layout of any version.

use agent::testing::python::{
    remote::{Target, read},
    versions::SUPPORTED,
};
use agent_common::memory::UserAddr;

use crate::{
    input::Input,
    memory::{Memory, START},
};

pub(super) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let (kind, series) = (input.byte(), input.byte());
    let series = &SUPPORTED[usize::from(series) % SUPPORTED.len()];
    let layout = match series.free_threaded {
        Some(layout) if kind & 2 != 0 => layout,
        _ => series.layout,
    };
    let target = Target {
        interpreters_head: UserAddr(START),
        gil_holder: (kind & 4 != 0).then_some(UserAddr(START + 8)),
        layout,
    };
    let mut memory = if kind & 1 == 0 {
        Memory::of_cells(input.rest())
    } else {
        Memory::of_bytes(input.rest())
    };
    if kind & 8 == 0 {
        // One thread that is found in any memory.
        let (interpreter, thread) = (UserAddr(START + 0x100), UserAddr(START + 0x2000));
        let fields = &layout.thread;
        memory.set(UserAddr(START), interpreter.0);
        for (at, word) in [
            (interpreter.field(layout.interpreter.threads_head), thread.0),
            (interpreter.field(layout.interpreter.next), 0),
            (thread.field(fields.interpreter), interpreter.0),
            (thread.field(fields.thread_id), 7),
            (thread.field(fields.next), 0),
        ] {
            memory.set(at, word);
        }
    }
    let _ = read(&memory, &target);
}
