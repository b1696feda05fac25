//! The targets: one file each, with the same name as its folder of `corpus`.

/// What a target does with the bytes of a run.
pub(crate) type Target = fn(&[u8]);

macro_rules! targets {
    ($($name:ident)*) => {
        $(mod $name;)*

        /// All targets, by name.
        pub(crate) const TARGETS: &[(&str, Target)] = &[$((stringify!($name), $name::run)),*];
    };
}

targets! {
    cgroup
    compressed
    config
    core_dump
    demangle
    dwarf
    elf
    frames
    gopclntab
    grpc
    http
    line_table
    native_walk
    perf_map
    pods
    pprof
    procfs
    python_file
    python_walk
    records
    relabel
    runtime
    tasks
}
