//! Code of JIT compilers, in pprof and as it is read again.

use crate::{
    formats::{
        EncodeOptions,
        pprof::{PprofFile, write},
    },
    profile::{ExecutableKind, FrameKind, Profile, fixtures::example_profile},
};

/// Kinds of the functions in code of a JIT compiler, in the order of their names.
fn kinds(profile: &Profile) -> Vec<(&str, FrameKind)> {
    let in_jit = profile.locations.iter().filter(|location| {
        let executable = location
            .code
            .map(|code| profile.executable(code.executable));
        executable.is_some_and(|it| it.kind == ExecutableKind::Anonymous)
    });
    let functions = in_jit.flat_map(|location| &location.lines);
    let functions = functions.map(|line| profile.function(line.function));
    let mut kinds: Vec<_> = functions.map(|it| (&*it.name, it.kind)).collect();
    kinds.sort_unstable_by_key(|(name, _)| *name);
    kinds
}

/// All of it that has no name is one location, at no address.
#[test]
fn code_without_an_address_is_native_again() {
    let mut profile = example_profile("main.py");
    let executables = profile.executables.clone();
    for location in &mut profile.locations {
        if let Some(code) = &mut location.code
            && executables[code.executable.0 as usize].kind == ExecutableKind::Anonymous
        {
            code.address = 0;
        }
    }
    let mut bytes = Vec::new();
    write(&profile, EncodeOptions::default(), &mut bytes).unwrap();
    let again = PprofFile::new(&bytes).unwrap().profile().unwrap();
    assert_eq!(kinds(&profile), [("kernel; v1", FrameKind::Native)]);
    assert_eq!(kinds(&again), kinds(&profile));
}
