//! Profiles without the internals of the interpreter: what a reader of a Python program does not look for.
//!
//! ```text
//! leaf  [waiting: lock]                       kept
//!       list_sort_impl, builtin_sorted        kept: what the function calls
//!       PyObject_Vectorcall, _PyEval_…        left out: how it is called, and how the function runs
//!       rows        (Python)                  kept
//!       _PyEval_…, PyObject_Call …            left out: how one function calls the other
//!       <module>    (Python)                  kept
//!       run_mod, Py_RunMain, main             left out: how the interpreter begins
//! root  __libc_start_main, _start             left out: how processes and threads begin
//! ```
//!
//! Where a module imports another one, the import system's functions between the two are left out; while they search
//! and read modules they are kept, and in single stacks.
//!
//! Where an exception is raised, native frames that are missing are the interpreter's, and left out.
//!
//! Frames of other executables are kept, but for how functions of Cython are called, and so are stacks without Python
//! frames. Of a thread that waits the marker says for what, so how it does is left out: frames of the interpreter, the
//! C library and the kernel.
//!
//! Tables are about Python functions: there, what they call of the interpreter and, for it, of the C library
//! is left out too, and their own time is with it. Their memory is with all that they call.

#[cfg(test)]
mod tests;

use super::{
    executable::{Executable, ExecutableKind},
    indices::LocationId,
    location::{FrameKind, Location},
    model::{Profile, Sample},
    wait::{Wait, is_of_native_frames},
};

/// What is told apart here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Python,
    /// Python functions of the import system.
    Import,
    /// The one of them that runs modules.
    RunsModule,
    /// Stands for what threads do, or for Python frames that are missing.
    Marker,
    /// Stands for native frames that are missing.
    MissingNative,
    /// Code of an interpreter by which functions run and are called, or of which nothing is known.
    Call,
    /// Other code of an interpreter.
    Interpreter,
    /// The C library.
    CLibrary,
    Kernel,
    Other,
}

/// Whether functions of the import system between two modules are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Imports {
    Shown,
    LeftOut,
}

/// What an interpreter does for the innermost Python function of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// It is shown, and how the interpreter calls it.
    Whole,
    /// It is shown.
    Shown,
    /// It is the function's own.
    LeftOut,
    /// It is the function's own, and so is what others do for it.
    OfFunction,
    /// It waits, in the kernel.
    Waits,
}

impl Profile {
    /// The same samples without internals of the interpreter, for flame graphs. Vectors of the profile keep
    /// what is no longer used.
    #[must_use]
    pub fn without_internals(&self) -> Self {
        self.with_work(Imports::LeftOut, |stack| self.work_in(stack, Work::Shown))
    }

    /// The same samples without all frames of interpreters, for tables of functions.
    #[must_use]
    pub fn without_interpreters(&self) -> Self {
        self.with_work(Imports::LeftOut, |stack| self.work_in(stack, Work::LeftOut))
    }

    /// The same samples without internals of the interpreter, but with how threads wait and modules are imported, for
    /// single stacks. Where
    /// `is_whole` says so of a stack, nothing is left out of what the innermost Python function has called.
    #[must_use]
    pub fn without_calls(&self, is_whole: impl Fn(&[LocationId]) -> bool) -> Self {
        self.with_work(Imports::Shown, |stack| {
            if is_whole(stack) {
                Work::Whole
            } else {
                Work::Shown
            }
        })
    }

    /// For samples of this profile: how many frames, from the leaf, say only what the thread does, and how it waits.
    pub fn depths_of_waits(&self) -> impl Fn(&Sample) -> usize {
        let class = self.classes();
        move |sample| {
            let stack = &self.stacks[sample.stack.0 as usize];
            let markers = self.markers_of(stack).count;
            // That of a thread whose processor the kernel has taken, too.
            let work = self.work_in(stack, Work::LeftOut);
            if work != Work::Waits {
                return markers;
            }
            let kept = program_frames(stack, &class, work);
            let position = |leaf: Option<LocationId>| {
                let frames = stack.iter().skip(markers);
                let depth = frames.take_while(|id| leaf.is_some_and(|leaf| leaf != **id));
                markers + depth.count()
            };
            position(kept.get(markers).copied()).max(position(self.leaf_of(sample)))
        }
    }

    fn with_work(&self, imports: Imports, work: impl Fn(&[LocationId]) -> Work) -> Self {
        let class = self.classes();
        self.restacked(|stack| {
            // The interpreter itself raises an exception in a function.
            let raises = self.markers_of(stack).exception.is_some();
            let class = |id| match class(id) {
                Class::MissingNative if raises => Class::Call,
                Class::Import | Class::RunsModule if imports == Imports::Shown => Class::Python,
                other => other,
            };
            program_frames(stack, class, work(stack))
        })
    }

    /// The classes of all locations.
    fn classes(&self) -> impl Fn(LocationId) -> Class + use<> {
        let classes: Vec<Class> = self.locations.iter().map(|it| self.class(it)).collect();
        move |LocationId(index)| classes[index as usize]
    }

    /// What the interpreter does in a stack, where it is shown as `work`.
    fn work_in(&self, stack: &[LocationId], work: Work) -> Work {
        match self.markers_of(stack).wait {
            // How the kernel took the processor from it is nothing that the function did.
            Some(Wait::Runnable) if work == Work::LeftOut => Work::Waits,
            // The function did something else.
            None | Some(Wait::Runnable | Wait::PageFault) => {
                // How memory is allocated, and who touches it first, is the same for all functions that need some.
                let is_of_function = work == Work::LeftOut && self.kind.is_about_memory();
                if is_of_function {
                    Work::OfFunction
                } else {
                    work
                }
            }
            Some(_) => Work::Waits,
        }
    }

    fn class(&self, location: &Location) -> Class {
        if let Some(line) = location.lines.first() {
            let function = self.function(line.function);
            match function.kind {
                FrameKind::Python if function.runs_modules() => return Class::RunsModule,
                FrameKind::Python if function.is_of_import_system() => return Class::Import,
                FrameKind::Python => return Class::Python,
                FrameKind::Marker if is_of_native_frames(&function.name) => {
                    return Class::MissingNative;
                }
                FrameKind::Marker => return Class::Marker,
                FrameKind::Kernel => return Class::Kernel,
                FrameKind::Native => {}
            }
        }
        let Some(code) = location.code else {
            return Class::Other;
        };
        let executable = self.executable(code.executable);
        if executable.is_kernel() {
            return Class::Kernel;
        }
        if is_c_library(executable) {
            return Class::CLibrary;
        }
        // The function itself, not what is inlined into it.
        let function = location.lines.last().map(|line| line.function);
        let function = function.map(|function| &*self.function(function).name);
        if !executable.is_interpreter() {
            return match function {
                Some(function) if is_call_of_cython(function) => Class::Call,
                _ => Class::Other,
            };
        }
        match function {
            Some(function) if !is_call(function) => Class::Interpreter,
            _ => Class::Call,
        }
    }
}

/// The frames of a stack, leaf first, that are not internals.
fn program_frames(
    stack: &[LocationId],
    class: impl Fn(LocationId) -> Class,
    work: Work,
) -> Vec<LocationId> {
    let is_python = |id: &LocationId| {
        matches!(
            class(*id),
            Class::Python | Class::Import | Class::RunsModule
        )
    };
    let innermost = stack.iter().position(is_python);
    let (Some(innermost), Some(outermost)) = (innermost, stack.iter().rposition(is_python)) else {
        return stack.to_vec();
    };
    // The innermost function of the import system since the last of another file.
    let mut import = None;
    let frames = stack.iter().enumerate().filter(|&(depth, id)| {
        let is_shown = matches!(work, Work::Whole | Work::Shown);
        let is_internal = match class(*id) {
            // Before the innermost Python function comes what it calls.
            Class::Call => work != Work::Whole || depth > innermost,
            Class::Interpreter => !is_shown || depth > innermost,
            Class::CLibrary => depth > outermost || !is_shown && depth < innermost,
            Class::Kernel => work == Work::Waits,
            Class::Other | Class::MissingNative => work == Work::OfFunction && depth < innermost,
            Class::Import | Class::RunsModule => {
                *import.get_or_insert(class(*id)) == Class::RunsModule
            }
            Class::Python => {
                import = None;
                false
            }
            Class::Marker => false,
        };
        !is_internal
    });
    frames.map(|(_, id)| *id).collect()
}

/// Whether it is the C library, or a part of it that starts threads or finds their variables.
fn is_c_library(executable: &Executable) -> bool {
    let name = executable.name();
    executable.kind == ExecutableKind::File
        && [
            "libc.so",
            "libc-",
            "libpthread",
            "ld-linux",
            "ld-musl-",
            "libc.musl-",
        ]
        .iter()
        .any(|start| name.starts_with(start))
}

/// Whether a function of an interpreter runs a Python function, or passes arguments to a function of any
/// kind: by what all versions of CPython call them.
fn is_call(name: &str) -> bool {
    const STARTS: [&str; 14] = [
        "PyEval_",
        "PyObject_Call",
        "PyObject_FastCall",
        "PyObject_MakeTpCall",
        "PyFunction_",
        "PyCFunction_",
        "PyMethodDef_RawFastCall",
        "PyMethodDescr_FastCall",
        "call_function",
        "cfunction_call",
        "do_call",
        "fast_function",
        "function_code_fastcall",
        "object_vacall",
    ];
    let name = name.trim_start_matches('_');
    STARTS.iter().any(|start| name.starts_with(start))
        || name.contains("vectorcall")
        || name.contains("Vectorcall")
}

/// Whether a function that Cython adds to a module runs or calls another one.
fn is_call_of_cython(name: &str) -> bool {
    const PARTS: [&str; 6] = [
        "CyFunction_",
        "Coroutine_",
        "Generator_",
        "PyObject_Call",
        "PyObject_FastCall",
        "PyFunction_FastCall",
    ];
    let own = name.strip_prefix("__Pyx_");
    own.is_some_and(|name| {
        PARTS
            .iter()
            .any(|part| name.trim_start_matches('_').starts_with(part))
    })
}
