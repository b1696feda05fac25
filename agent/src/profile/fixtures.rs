//! Made-up profiles, for tests.

use std::{
    collections::BTreeMap,
    num::NonZeroU32,
    path::Path,
    time::{Duration, SystemTime},
};

use super::{
    CPU, CodeAddress, Executable, ExecutableId, ExecutableKind, FilteredOut, FrameKind, Function,
    FunctionId, Image, Line, Location, LocationId, Losses, Process, ProcessIndex, Profile, Sample,
    StackId, Thread, ThreadIndex, TimedSample, Timeline, UnsymbolizedLosses,
};
#[cfg(test)]
use super::{Kind, Period};

/// Sampling period of the profiles.
pub const PERIOD_NS: u64 = 10_000_000;

/// A profile with the hard cases: threads with equal names, recursion, markers, names that look like
/// C++, names that are not ASCII or contain the separators of a format, locations without a line;
/// native and kernel frames between Python frames, inlined functions, unsymbolized frames, and the
/// same line at two addresses. `source` is the file of the program.
pub fn example_profile(source: &str) -> Profile {
    let mut made = Tables::default();
    let module = made.function("<module>", source, 1);
    let main = made.function("main", source, 3);
    let fib = made.function("fib", source, 7);
    let lambda = made.function("Rows.load.<locals>.<lambda>", source, 14);
    let size = made.function("Straße.größe_日本", source, 17);
    let hostile = made.function(" a;b\n\x1b[31m <c> 9 ", "x;y.py", 1);
    let loads = made.function("loads", "/usr/lib/python3.12/json/__init__.py", 299);
    let get = made.function(
        "get",
        "/srv/venv/lib/python3.12/site-packages/req/api.py",
        62,
    );
    let import = made.function("_find_and_load", "<frozen importlib._bootstrap>", 1349);
    let filtered_out = made.marker("[frames left out]");
    let no_python = made.marker("[no Python frames]");

    let at_module = made.location(module, 22);
    let at_main = [
        made.location(main, 4),
        made.location(main, 5),
        made.location(main, 0),
    ];
    let at_fib = [made.location(fib, 10), made.location(fib, 11)];
    let at_lambda = made.location(lambda, 14);
    let at_size = made.location(size, 18);
    let at_hostile = made.location(hostile, 2);
    let at_loads = made.location(loads, 346);
    let at_get = made.location(get, 73);
    let at_import = made.location(import, 1360);
    let at_left_out = made.location(filtered_out, 0);
    let at_no_python = made.location(no_python, 0);

    let stacks: [&[LocationId]; 9] = [
        &[at_fib[1], at_fib[0], at_fib[0], at_main[0], at_module],
        &[at_fib[0], at_fib[0], at_main[0], at_module],
        &[at_lambda, at_main[1], at_module],
        &[at_loads, at_get, at_main[1], at_module],
        &[at_main[2], at_module],
        &[at_import, at_module],
        &[at_size, at_lambda, at_left_out],
        &[at_hostile, at_get],
        &[at_no_python],
    ];
    let thread = |tid, name: &str| Thread {
        process: ProcessIndex(0),
        tid,
        name: name.to_owned(),
    };
    let mut profile = Profile {
        start: SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_323_045),
        duration: Duration::from_millis(10_012),
        kind: &CPU,
        period: PERIOD_NS,
        labels: BTreeMap::new(),
        processes: vec![Process {
            pid: 4242,
            parent: Some(4000),
            name: "python3.12".to_owned(),
            is_python: true,
            runtime: "CPython 3.12.1".to_owned(),
            executable: "/usr/bin/python3.12".into(),
            images: images().into(),
        }],
        executables: made.executables,
        functions: made.functions,
        locations: made.locations,
        stacks: stacks.into_iter().map(Box::from).collect(),
        threads: vec![
            thread(4242, "MainThread"),
            thread(4243, "worker"),
            thread(4244, "worker"),
            thread(4245, "# naïve; 线程"),
        ],
        tasks: Vec::new(),
        samples: vec![
            sample(0, 0, 120),
            sample(1, 0, 30),
            sample(2, 0, 10),
            sample(3, 0, 40),
            sample(4, 0, 5),
            sample(5, 0, 3),
            sample(3, 1, 50),
            sample(3, 2, 60),
            sample(6, 1, 20),
            sample(7, 3, 9),
            sample(8, 3, 3),
        ],
        timeline: None,
        losses: Losses {
            lost_samples: 12,
            truncated: 20,
            not_python: 3,
            ..Losses::default()
        },
        unwind_stats: Vec::new(),
        filtered_out: FilteredOut::default(),
    };
    add_native_frames(&mut profile);
    profile
}

/// Adds stacks with native and kernel frames.
fn add_native_frames(profile: &mut Profile) {
    let mut made = Tables {
        executables: Vec::new(),
        functions: std::mem::take(&mut profile.functions),
        locations: std::mem::take(&mut profile.locations),
    };
    let [at_lambda, at_main, at_module] = [0, 1, 2].map(|depth| profile.stacks[2][depth]);
    let at_get = profile.stacks[3][1];
    let [python, libc, speedups, vdso, kernel, ext4, jit] = made.executables();
    let at_entry = made.code(libc, 0x2_724a, &[("__libc_start_main", "", 0)]);
    let at_run = made.code(python, 0x6b_1f20, &[("Py_RunMain", "", 0)]);
    let binary_sort = ("binarysort", "Objects/listobject.c", 1698);
    let list_sort = ("list_sort_impl", "Objects/listobject.c", 2514);
    let at_sort = [
        made.code(python, 0x4f_03c8, &[binary_sort, list_sort]),
        made.code(python, 0x4f_0411, &[binary_sort, list_sort]),
    ];
    let at_write = made.code(libc, 0xf_c8a0, &[("__write", "", 0)]);
    let at_io = made.code(python, 0x66_d2a3, &[("_io_FileIO_write", "", 0)]);
    let at_vfs = made.code(kernel, 0xffff_ffff_816b_8a11, &[("vfs_write", "", 0)]);
    let at_ext4 = made.code(
        ext4,
        0xffff_ffff_c061_2345,
        &[("ext4_file_write_iter", "", 0)],
    );
    let parse = ("speedups::Parser<'_>::parse", "src/parser.rs", 42);
    let at_parse = made.code(speedups, 0x1_90c4, &[("memchr::<u8>", "", 0), parse]);
    let at_unnamed = made.code(speedups, 0x1_7b02, &[]);
    let at_jit = made.code(jit, 0x7fff_e000_1234, &[("kernel; v1", "", 0)]);
    let at_unnamed_jit = made.code(jit, 0x7fff_e000_2468, &[]);
    let at_clock = made.code(vdso, 0xc31, &[("__vdso_clock_gettime", "", 0)]);
    let at_unnamed_kernel = made.code(kernel, 0xffff_ffff_8100_0130, &[]);
    let native_unknown = made.marker("[native frames unknown: the stack was not in memory]");
    let at_native_unknown = made.location(native_unknown, 0);

    let stacks: [(u32, u64, &[LocationId]); 6] = [
        (
            0,
            20,
            &[
                at_ext4, at_vfs, at_write, at_io, at_main, at_module, at_run, at_entry,
            ],
        ),
        (
            0,
            15,
            &[at_lambda, at_sort[0], at_main, at_module, at_run, at_entry],
        ),
        (
            0,
            5,
            &[at_lambda, at_sort[1], at_main, at_module, at_run, at_entry],
        ),
        (
            1,
            6,
            &[
                at_parse,
                at_unnamed,
                at_native_unknown,
                at_get,
                at_main,
                at_module,
            ],
        ),
        (2, 3, &[at_unnamed_jit, at_jit, at_unnamed, at_get]),
        (3, 1, &[at_unnamed_kernel, at_clock, at_native_unknown]),
    ];
    for (thread, count, stack) in stacks {
        profile.stacks.push(stack.into());
        profile.samples.push(Sample {
            stack: StackId(last(&profile.stacks)),
            thread: ThreadIndex(thread),
            task: None,
            count,
            value: count * PERIOD_NS,
        });
    }
    profile.executables = made.executables;
    profile.functions = made.functions;
    profile.locations = made.locations;
    profile.losses.unwind.fault = 7;
    profile.losses.unsymbolized_native_frames = UnsymbolizedLosses {
        no_symbols: 9,
        no_map: 3,
        kptr_restricted: 1,
        ..UnsymbolizedLosses::default()
    };
}

/// [`example_profile`] with two more processes: an older Python that shares locations with the first
/// one and has a thread with the same id, and a process without Python whose name consists of the
/// separators of a format.
#[must_use]
pub fn example_processes(source: &str) -> Profile {
    let mut profile = example_profile(source);
    profile.processes.push(Process {
        pid: 4300,
        parent: Some(4242),
        name: "python2.7".to_owned(),
        is_python: true,
        runtime: "CPython 2.7.18".to_owned(),
        executable: "/usr/bin/python2.7".into(),
        images: vec![Image {
            path: "/usr/bin/python2.7".into(),
            build_id: None,
            // The first process has another file there.
            ..images().remove(0)
        }]
        .into(),
    });
    profile.processes.push(Process {
        pid: 4301,
        parent: Some(4300),
        name: "#; s\nh".to_owned(),
        ..Process::default()
    });
    let thread = |process, tid, name: &str| Thread {
        process: ProcessIndex(process),
        tid,
        name: name.to_owned(),
    };
    profile.threads.extend([
        thread(1, 4300, "MainThread"),
        thread(1, 4243, "worker"),
        thread(2, 4301, "sh"),
    ]);
    profile
        .samples
        .extend([sample(2, 4, 70), sample(2, 5, 40), sample(8, 6, 7)]);
    profile
}

/// A profile some of whose samples, chosen by their indices, have these markers as the leaf.
#[cfg(test)]
pub(crate) fn with_waits(mut profile: Profile, waits: &[(usize, &str)]) -> Profile {
    let mut made = Tables {
        executables: Vec::new(),
        functions: std::mem::take(&mut profile.functions),
        locations: std::mem::take(&mut profile.locations),
    };
    for &(sample, marker) in waits {
        let known = made
            .functions
            .iter()
            .position(|function| function.name == marker);
        let marker = known.map_or_else(
            || made.marker(marker),
            |known| FunctionId(u32::try_from(known).unwrap()),
        );
        let is_leaf =
            |location: &Location| location.lines.iter().any(|line| line.function == marker);
        let known = made.locations.iter().position(is_leaf);
        let leaf = known.map_or_else(
            || made.location(marker, 0),
            |known| LocationId(u32::try_from(known).unwrap()),
        );
        let sample = &mut profile.samples[sample];
        let stack = &profile.stacks[sample.stack.0 as usize];
        let stack = [leaf].into_iter().chain(stack.iter().copied()).collect();
        profile.stacks.push(stack);
        sample.stack = StackId(last(&profile.stacks));
    }
    profile.functions = made.functions;
    profile.locations = made.locations;
    profile
}

/// A profile with as many samples of another kind.
#[cfg(test)]
pub(crate) fn of_kind(profile: Profile, kind: &'static Kind) -> Profile {
    let period = match kind.period {
        Period::Rate => PERIOD_NS,
        Period::Events(distance) | Period::Bytes(distance) => distance,
    };
    let samples = profile.samples.iter().map(|sample| Sample {
        value: sample.count * period,
        ..*sample
    });
    Profile {
        samples: samples.collect(),
        kind,
        period,
        ..profile
    }
}

/// The same profile with a timeline. Each thread runs its stacks in turns, each for up to four periods, and sleeps for ten
/// periods after each round.
#[must_use]
pub fn timed(mut profile: Profile) -> Profile {
    const TURN: u64 = 4;
    const SLEEP: u64 = 10;
    let mut timeline = Vec::new();
    for thread in 0..profile.threads.len() {
        let of_thread = |(_, sample): &(u32, &Sample)| sample.thread.0 as usize == thread;
        let samples = (0..).zip(&profile.samples).filter(of_thread);
        let mut left: Vec<_> = samples
            .map(|(index, sample)| (index, sample.count, sample.value / sample.count.max(1)))
            .collect();
        let mut periods = 0;
        while !left.is_empty() {
            for (sample, count, value) in &mut left {
                let turn = TURN.min(*count);
                *count -= turn;
                for _ in 0..turn {
                    periods += 1;
                    timeline.push(TimedSample {
                        time_ns: periods * PERIOD_NS,
                        sample: *sample,
                        value: u32::try_from(*value).unwrap_or(u32::MAX),
                    });
                }
            }
            left.retain(|(_, count, _)| *count != 0);
            periods += SLEEP;
        }
    }
    profile.timeline = Some(Timeline::new(timeline));
    profile
}

fn sample(stack: u32, thread: u32, count: u64) -> Sample {
    Sample {
        stack: StackId(stack),
        thread: ThreadIndex(thread),
        task: None,
        count,
        value: count * PERIOD_NS,
    }
}

fn images() -> Vec<Image> {
    let image = |start, path: &str, build_id: Option<&str>| Image {
        start,
        end: start + 0x10_0000,
        file_offset: 0x2000,
        path: path.into(),
        build_id: build_id.map(str::to_owned),
    };
    vec![
        image(
            0x5555_5555_6000,
            "/usr/bin/python3.12",
            Some("0123456789abcdef0123456789abcdef01234567"),
        ),
        image(
            0x7fff_f7a0_0000,
            "/usr/lib/libc.so.6",
            Some("89abcdef0123456789abcdef0123456789abcdef"),
        ),
        image(0x7fff_f7c0_0000, "/srv/app/_speedups.abi3.so", None),
    ]
}

#[derive(Default)]
struct Tables {
    executables: Vec<Executable>,
    functions: Vec<Function>,
    locations: Vec<Location>,
}

impl Tables {
    fn function(&mut self, name: &str, file: &str, first_line: u32) -> FunctionId {
        self.functions.push(Function {
            name: name.to_owned(),
            file: file.to_owned(),
            first_line: NonZeroU32::new(first_line),
            kind: FrameKind::Python,
        });
        FunctionId(last(&self.functions))
    }

    fn marker(&mut self, name: &str) -> FunctionId {
        let id = self.function(name, "", 0);
        self.functions[id.0 as usize].kind = FrameKind::Marker;
        id
    }

    /// The images of the first process, and executables that are not files.
    fn executables(&mut self) -> [ExecutableId; 7] {
        let images = images();
        let executable = |kind, path: &str, start, file_offset| {
            let image = images.iter().find(|image| image.path == Path::new(path));
            Executable {
                path: path.into(),
                build_id: image.and_then(|image| image.build_id.clone()),
                kind,
                start,
                limit: start + 0x100_0000,
                file_offset,
            }
        };
        let file = ExecutableKind::File;
        self.executables = vec![
            executable(file, "/usr/bin/python3.12", 0x42_0000, 0x2_0000),
            executable(file, "/usr/lib/libc.so.6", 0x2_6000, 0x2_6000),
            executable(file, "/srv/app/_speedups.abi3.so", 0x1_4000, 0x4000),
            executable(ExecutableKind::Vdso, "", 0, 0),
            executable(ExecutableKind::Kernel, "", 0xffff_ffff_8100_0000, 0),
            executable(
                ExecutableKind::KernelModule,
                "ext4",
                0xffff_ffff_c060_0000,
                0,
            ),
            executable(ExecutableKind::Anonymous, "", 0x7fff_e000_0000, 0),
        ];
        [0, 1, 2, 3, 4, 5, 6].map(ExecutableId)
    }

    /// Adds the location of a native or kernel frame; `lines` are names, files and lines of functions,
    /// the innermost first.
    fn code(
        &mut self,
        executable: ExecutableId,
        address: u64,
        lines: &[(&str, &str, u32)],
    ) -> LocationId {
        let kind = if self.executables[executable.0 as usize].is_kernel() {
            FrameKind::Kernel
        } else {
            FrameKind::Native
        };
        let lines = lines
            .iter()
            .map(|&(name, file, line)| {
                let is_known = |known: &Function| known.name == name;
                let known = self.functions.iter().position(is_known);
                let function = known.map_or_else(
                    || self.function(name, file, 0),
                    |index| FunctionId(u32::try_from(index).unwrap_or(u32::MAX)),
                );
                self.functions[function.0 as usize].kind = kind;
                Line {
                    function,
                    line: NonZeroU32::new(line),
                }
            })
            .collect();
        self.locations.push(Location {
            lines,
            code: Some(CodeAddress {
                executable,
                address,
            }),
        });
        LocationId(last(&self.locations))
    }

    fn location(&mut self, function: FunctionId, line: u32) -> LocationId {
        let line = Line {
            function,
            line: NonZeroU32::new(line),
        };
        self.locations.push(Location {
            lines: [line].into(),
            code: None,
        });
        LocationId(last(&self.locations))
    }
}

/// Index of the last item.
fn last<T>(items: &[T]) -> u32 {
    u32::try_from(items.len()).map_or(u32::MAX, |length| length - 1)
}
