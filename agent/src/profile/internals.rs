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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{
        fixtures::{example_profile, of_kind, with_waits},
        kinds::growth,
    };

    /// The functions of a stack, leaf first.
    fn names(profile: &Profile, index: usize) -> Vec<&str> {
        let locations = profile.stacks[index].iter().map(|id| profile.location(*id));
        let names = locations.map(|location| match location.lines.last() {
            Some(line) => profile.function(line.function).name.as_str(),
            None => "?",
        });
        names.collect()
    }

    /// The stacks of the samples.
    fn sampled(profile: &Profile) -> impl Iterator<Item = Vec<&str>> {
        let samples = profile.samples.iter();
        samples.map(|sample| names(profile, sample.stack.0 as usize))
    }

    /// The sample of a thread that writes to a file.
    fn write(profile: &Profile) -> usize {
        let is_write =
            |sample: &Sample| names(profile, sample.stack.0 as usize)[0] == "ext4_file_write_iter";
        profile.samples.iter().position(is_write).unwrap()
    }

    #[test]
    fn only_internals_are_left_out() {
        let profile = example_profile("main.py");
        let shown = profile.without_internals();
        let find = |of: &Profile, leaf| {
            let mut stacks = 0..of.stacks.len();
            stacks.find(|&index| names(of, index)[0] == leaf).unwrap()
        };
        let write = find(&profile, "ext4_file_write_iter");
        assert_eq!(
            names(&profile, write)[2..],
            [
                "__write",
                "_io_FileIO_write",
                "main",
                "<module>",
                "Py_RunMain",
                "__libc_start_main"
            ]
        );
        assert_eq!(
            names(&shown, find(&shown, "ext4_file_write_iter"))[2..],
            ["__write", "_io_FileIO_write", "main", "<module>"]
        );
        let parse = find(&profile, "speedups::Parser<'_>::parse");
        let shown_parse = find(&shown, "speedups::Parser<'_>::parse");
        assert_eq!(names(&shown, shown_parse), names(&profile, parse));
    }

    #[test]
    fn a_function_has_the_work_of_the_interpreter() {
        let profile = example_profile("main.py");
        let shown = profile.without_interpreters();
        let is_write = |index: &usize| names(&shown, *index)[0] == "ext4_file_write_iter";
        let write = (0..shown.stacks.len()).find(is_write).unwrap();
        assert_eq!(names(&shown, write)[1..], ["vfs_write", "main", "<module>"]);
        assert_eq!(shown.total_value(), profile.total_value());
    }

    #[test]
    fn modules_are_imported_by_modules() {
        use Class::{Call, Import, Interpreter, Marker, Other, Python, RunsModule};
        let shown = |stack: &[Class], work| -> Vec<Class> {
            let ids: Vec<_> = (0..).map(LocationId).take(stack.len()).collect();
            let frames = program_frames(&ids, |id| stack[id.0 as usize], work);
            frames.iter().map(|id| stack[id.0 as usize]).collect()
        };
        // A module that is imported by another one, and an extension module.
        let imported = [Python, RunsModule, Import, Call, Import, Python];
        let extension = [Other, Interpreter, RunsModule, Import, Import, Python];
        for work in [Work::Shown, Work::LeftOut, Work::Waits, Work::OfFunction] {
            assert_eq!(shown(&imported, work), [Python, Python]);
        }
        assert_eq!(shown(&extension, Work::LeftOut), [Other, Python]);
        // The search for a module of a package, which is imported for it.
        let search = [Marker, Import, Import, RunsModule, Import, Python];
        let twice = [&search[..], &imported[1..]].concat();
        assert_eq!(shown(&search, Work::Shown), search);
        assert_eq!(
            shown(&twice, Work::Shown),
            [&search[..], &[Python]].concat()
        );
    }

    #[test]
    fn memory_is_of_the_function_that_needs_it() {
        const PARSE: &str = "speedups::Parser<'_>::parse";
        let profile = example_profile("main.py");
        let grown = of_kind(profile.clone(), &growth::KIND);
        for (of, has_parse) in [(&profile, true), (&grown, false)] {
            let shown = of.without_interpreters();
            let mut stacks = sampled(&shown);
            assert_eq!(stacks.any(|it| it.contains(&PARSE)), has_parse);
            assert_eq!(shown.total_value(), of.total_value());
        }
    }

    #[test]
    fn a_thread_waits_in_a_function_of_the_program() {
        let profile = example_profile("main.py");
        let write = write(&profile);
        for (marker, expected) in [("[waiting: file]", "main"), ("[runnable]", "main")] {
            let waits = with_waits(profile.clone(), &[(write, marker)]);
            let sample = &waits.samples[write];
            let depth = waits.depths_of_waits()(sample);
            assert_eq!(names(&waits, sample.stack.0 as usize)[depth], expected);
        }
        assert_eq!(profile.depths_of_waits()(&profile.samples[write]), 0);
    }

    #[test]
    fn a_function_raises_also_where_native_frames_are_missing() {
        const MISSING: &str = "[native frames unknown: the stack was not in memory]";
        let profile = example_profile("main.py");
        let is_called = |sample: &Sample| {
            let names = names(&profile, sample.stack.0 as usize);
            names.contains(&MISSING) && names.contains(&"get")
        };
        let called = profile.samples.iter().position(is_called).unwrap();
        let raises = with_waits(profile.clone(), &[(called, "[raises: KeyError]")]);
        for (of, is_shown) in [(&profile, true), (&raises, false)] {
            for shown in [of.without_internals(), of.without_interpreters()] {
                let mut stacks = sampled(&shown);
                let has_missing = stacks.any(|it| it.contains(&MISSING) && it.contains(&"get"));
                assert_eq!(has_missing, is_shown);
            }
        }
    }

    #[test]
    fn how_a_thread_waits_is_left_out() {
        let profile = example_profile("main.py");
        let write = write(&profile);
        for (marker, expected) in [
            (
                "[waiting: file]",
                &["[waiting: file]", "main", "<module>"][..],
            ),
            (
                "[runnable]",
                &["[runnable]", "ext4_file_write_iter", "vfs_write"],
            ),
        ] {
            let shown = with_waits(profile.clone(), &[(write, marker)]).without_internals();
            let stack = shown.samples[write].stack.0 as usize;
            assert_eq!(names(&shown, stack)[..3], *expected);
        }
    }

    #[test]
    fn equal_stacks_are_merged() {
        let profile = example_profile("main.py");
        let shown = profile.without_internals();
        assert_eq!(shown.total(), profile.total());
        assert_eq!(shown.total_value(), profile.total_value());
        // Two addresses in `list_sort_impl` are one internal less.
        assert!(shown.stacks.len() < profile.stacks.len());
        assert!(shown.samples.len() < profile.samples.len());
        let mut pairs: Vec<_> = shown
            .samples
            .iter()
            .map(|it| (it.stack, it.thread))
            .collect();
        pairs.sort_unstable();
        pairs.dedup();
        assert_eq!(pairs.len(), shown.samples.len());
    }

    #[test]
    fn what_runs_a_function_is_not_what_it_calls() {
        for name in [
            "_PyEval_EvalFrameDefault",
            "_PyEval_EvalFrameDefault.cold",
            "PyEval_EvalFrameEx",
            "_PyFunction_Vectorcall",
            "cfunction_vectorcall_FASTCALL",
            "PyObject_CallOneArg",
        ] {
            assert!(is_call(name), "{name}");
        }
        assert!(is_call_of_cython("__Pyx_CyFunction_Vectorcall_O"));
        assert!(is_call_of_cython("__Pyx_PyObject_FastCallDict"));
        assert!(!is_call_of_cython("__Pyx_mod_long"));
        assert!(!is_call_of_cython("CyFunction_"));
        for name in [
            "list_sort_impl",
            "gc_collect_main",
            "PyObject_RichCompare",
            "builtin_sorted",
        ] {
            assert!(!is_call(name), "{name}");
        }
    }
}
