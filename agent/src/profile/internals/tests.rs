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
