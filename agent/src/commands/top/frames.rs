//! The functions and stacks of windows, and which frames of a stack are shown.
//!
//! Invariant: names are printable; of equal functions there is one, so that pointers tell them apart.

use std::{
    hash::{Hash, Hasher},
    num::NonZeroU32,
    sync::Arc,
};

use foldhash::HashSet;

use super::choices::Detail;
use crate::{
    commands::summary::Named,
    profile::{Executable, FrameKind, Location, Profile},
    text::printable,
};

/// Stands for the stack of a thread without Python frames where only these are shown.
const NO_PYTHON: &str = "[no Python frames]";

/// A function as it is shown: what reads the same is one.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Function {
    pub(super) name: String,
    /// Of a Python function the file and the first line, of another one the executable; empty for a
    /// marker.
    pub(super) place: String,
    /// Its source file, else what `place` says.
    pub(super) file: String,
    pub(super) origin: Origin,
}

/// Whose code a function is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Origin {
    Python,
    /// Of libraries, the program and the kernel.
    Native,
    /// Machine code of the interpreter.
    Interpreter,
    /// Stands for frames that are missing.
    Marker,
}

/// One of [`Functions`].
#[derive(Clone, Debug)]
pub(super) struct FunctionRef(Arc<Function>);

impl FunctionRef {
    pub(super) fn get(&self) -> &Function {
        &self.0
    }
}

impl PartialEq for FunctionRef {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for FunctionRef {}

impl Hash for FunctionRef {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

/// A line of a function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Frame {
    pub(super) function: FunctionRef,
    pub(super) line: Option<NonZeroU32>,
}

/// The functions to which anything refers.
#[derive(Debug, Default)]
pub(super) struct Functions(HashSet<Arc<Function>>);

impl Functions {
    /// The one that equals `function`.
    fn unique(&mut self, function: Function) -> FunctionRef {
        if let Some(known) = self.0.get(&function) {
            return FunctionRef(Arc::clone(known));
        }
        let new = Arc::new(function);
        self.0.insert(Arc::clone(&new));
        FunctionRef(new)
    }

    /// Evicts those to which nothing else refers.
    pub(super) fn evict_unused(&mut self) {
        self.0.retain(|function| Arc::strong_count(function) > 1);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The frames of a location, the innermost first.
    fn of_location(&mut self, profile: &Profile, location: &Location) -> Vec<Frame> {
        let executable = location
            .code
            .map(|code| profile.executable(code.executable));
        let is_interpreter = executable.is_some_and(Executable::is_interpreter);
        let lines = location.lines.iter().map(Some).chain([None]);
        let named = Named::of(profile, location).into_iter();
        let frames = named.zip(lines).map(|(named, line)| {
            let function = line.map(|line| profile.function(line.function));
            let origin = match function.map(|function| function.kind) {
                Some(FrameKind::Python) => Origin::Python,
                Some(FrameKind::Marker) => Origin::Marker,
                _ if is_interpreter => Origin::Interpreter,
                _ => Origin::Native,
            };
            let file = function.map_or("", |function| &function.file);
            let file = if file.is_empty() { &named.place } else { file };
            let function = Function {
                name: printable(named.name.trim()).into_owned(),
                file: printable(file).into_owned(),
                place: printable(&named.place).into_owned(),
                origin,
            };
            Frame {
                function: self.unique(function),
                line: line.and_then(|line| line.line),
            }
        });
        frames.collect()
    }

    /// The frames of each location of a profile.
    pub(super) fn of_locations(&mut self, profile: &Profile) -> Vec<Vec<Frame>> {
        let locations = profile.locations.iter();
        locations
            .map(|location| self.of_location(profile, location))
            .collect()
    }

    /// A stack of these frames, leaf first; in the first ones its thread waits.
    pub(super) fn stack(&mut self, waits: Vec<Frame>, rest: Vec<Frame>) -> Stack {
        let wait_depth = waits.len();
        let frames = [waits, rest].concat();
        let is = |origin| move |frame: &Frame| frame.function.get().origin == origin;
        let outermost_python = frames.iter().rposition(is(Origin::Python));
        let substitute = outermost_python.is_none().then(|| {
            let marker = frames.iter().find(|frame| is(Origin::Marker)(frame));
            marker.cloned().unwrap_or_else(|| Frame {
                function: self.unique(Function {
                    name: NO_PYTHON.to_owned(),
                    place: String::new(),
                    file: String::new(),
                    origin: Origin::Marker,
                }),
                line: None,
            })
        });
        Stack {
            frames: frames.into(),
            wait_depth,
            outermost_python,
            substitute,
        }
    }
}

/// A stack, without the markers that say what its thread does.
#[derive(Clone, Debug)]
pub(super) struct Stack {
    /// Leaf first.
    frames: Arc<[Frame]>,
    /// How many of them say how its thread waits.
    wait_depth: usize,
    /// Index of the Python frame nearest the root.
    outermost_python: Option<usize>,
    /// Shown in place of a stack without Python frames where only these are.
    substitute: Option<Frame>,
}

impl Stack {
    /// What tells it from other stacks of its window.
    pub(super) fn id(&self) -> *const Frame {
        self.frames.as_ptr()
    }

    /// How many frames it has.
    pub(super) fn len(&self) -> usize {
        self.frames.len()
    }

    /// The innermost Python function, or without one the innermost function that is shown.
    pub(super) fn innermost(&self, detail: Detail) -> Option<&FunctionRef> {
        let mut frames = self.frames.iter();
        let python = frames.find(|frame| frame.function.get().origin == Origin::Python);
        let innermost = python.or_else(|| self.shown(detail).next());
        innermost.map(|frame| &frame.function)
    }

    /// The frames that are shown, leaf first.
    pub(super) fn shown(&self, detail: Detail) -> impl Iterator<Item = &Frame> {
        let is_shown = move |(index, frame): &(usize, &Frame)| {
            let origin = frame.function.get().origin;
            match (detail, self.outermost_python) {
                (Detail::All, _) => true,
                (Detail::Python, _) => origin == Origin::Python,
                (Detail::Native, None) => *index >= self.wait_depth,
                // What is nearer the root has started the interpreter.
                (Detail::Native, Some(outermost)) => {
                    let is_wait = *index < self.wait_depth;
                    *index <= outermost && origin != Origin::Interpreter && !is_wait
                }
            }
        };
        let substitute = self.substitute.iter();
        let substitute = substitute.filter(move |_| detail == Detail::Python);
        let frames = self.frames.iter().enumerate().filter(is_shown);
        frames.map(|(_, frame)| frame).chain(substitute)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::fixtures::example_profile;

    /// The names of the shown frames of a stack of the example, leaf first.
    fn shown(stack: usize, detail: Detail) -> Vec<String> {
        let profile = example_profile("app.py");
        let mut functions = Functions::default();
        let locations = functions.of_locations(&profile);
        let frames = profile.stacks[stack]
            .iter()
            .flat_map(|id| locations[id.0 as usize].clone());
        let stack = functions.stack(Vec::new(), frames.collect());
        let shown = stack.shown(detail);
        shown.map(|it| it.function.get().name.clone()).collect()
    }

    #[test]
    fn the_interpreters_own_frames_and_what_started_it_are_left_out() {
        let lambda = "Rows.load.<locals>.<lambda>";
        let all = shown(10, Detail::All);
        assert_eq!(
            all,
            [
                lambda,
                "binarysort",
                "list_sort_impl",
                "main",
                "<module>",
                "Py_RunMain",
                "__libc_start_main"
            ]
        );
        assert_eq!(shown(10, Detail::Native), [lambda, "main", "<module>"]);
        let kernel = ["ext4_file_write_iter", "vfs_write", "__write"];
        let python = ["main", "<module>"];
        assert_eq!(shown(9, Detail::Native), [&kernel[..], &python].concat());
        assert_eq!(shown(9, Detail::Python), python);
    }

    #[test]
    fn a_stack_without_python_frames_is_complete_or_one_row() {
        let native = shown(14, Detail::Native);
        assert_eq!(native, shown(14, Detail::All));
        assert_eq!(native.len(), 3);
        assert!(shown(14, Detail::Python)[0].starts_with("[native frames unknown"));
        assert_eq!(shown(8, Detail::Python), [NO_PYTHON]);
    }

    #[test]
    fn names_cannot_control_the_terminal() {
        let names = shown(7, Detail::All);
        assert!(names.iter().all(|name| !name.contains(['\n', '\x1b'])));
    }

    #[test]
    fn functions_to_which_nothing_refers_are_evicted() {
        let mut functions = Functions::default();
        let locations = functions.of_locations(&example_profile(""));
        let all = functions.len();
        let kept = locations[0][0].clone();
        drop(locations);
        functions.evict_unused();
        assert!(all > 1 && functions.len() == 1);
        drop(kept);
        functions.evict_unused();
        assert_eq!(functions.len(), 0);
    }
}
