//! Sizes of encoded profiles.

use std::{
    collections::{BTreeMap, HashMap},
    num::NonZeroU32,
};

use super::super::{EncodeOptions, write};
use crate::profile::{
    CodeAddress, Executable, ExecutableId, ExecutableKind, FrameKind, Function, FunctionId, Line,
    Location, LocationId, Profile, Sample, StackId, ThreadIndex,
    fixtures::{PERIOD_NS, example_profile},
};

/// Deterministic random numbers.
struct Random(u64);

impl Random {
    /// A number below `limit`.
    fn below(&mut self, limit: u32) -> u32 {
        // Knuth's constants; the high bits are the random ones.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        u32::try_from((self.0 >> 33) % u64::from(limit)).unwrap()
    }

    /// A number below `limit`, more often a small one.
    fn small(&mut self, limit: u32) -> u32 {
        self.below(limit).min(self.below(limit))
    }
}

fn length<T>(items: &[T]) -> u32 {
    u32::try_from(items.len()).unwrap()
}

/// A minute: 5,940 samples of four threads, in stacks of 30 frames that share callers.
///
/// There are as many functions, locations and stacks as in a minute of a real program with four
/// threads that parse, tokenize, compare, format, log and inspect; the file of that program had 11 kB.
fn typical_minute() -> Profile {
    let mut random = Random(42);
    let packages = [
        "asyncio",
        "django/db/models",
        "json",
        "sqlalchemy/orm",
        "app/views",
    ];
    let words = [
        "load", "handle", "parse", "resolve", "_execute", "render", "__iter__", "compile",
    ];
    let mut profile = example_profile("");
    profile.executables.clear();
    profile.functions = (0..225)
        .map(|id: u32| Function {
            name: format!(
                "{}{}.{}_{}",
                words[random.below(8) as usize],
                random.below(20),
                words[random.below(8) as usize],
                random.below(50)
            ),
            file: format!(
                "/srv/venv/lib/python3.12/site-packages/{}/{}.py",
                packages[random.below(5) as usize],
                words[id as usize % 8]
            ),
            first_line: NonZeroU32::new(random.below(900) + 1),
            ..profile.functions[0].clone()
        })
        .collect();
    profile.locations = (0..410)
        .map(|id| Location {
            lines: [Line {
                function: FunctionId(id % 225),
                line: NonZeroU32::new(random.below(900) + 1),
            }]
            .into(),
            code: None,
        })
        .collect();
    // Each stack is an earlier one with other frames near the leaf.
    let mut stacks: Vec<Vec<LocationId>> = vec![(0..30).map(LocationId).collect()];
    while stacks.len() < 360 {
        let mut stack = stacks[random.below(length(&stacks)) as usize].clone();
        let other = random.below(6) as usize + 1;
        stack[..other].fill_with(|| LocationId(random.below(410)));
        stacks.push(stack);
    }
    profile.stacks = stacks.into_iter().map(Vec::into_boxed_slice).collect();
    let mut counts = BTreeMap::new();
    for _ in 0..99 * 60 {
        let key = (StackId(random.small(360)), ThreadIndex(random.below(4)));
        *counts.entry(key).or_default() += 1;
    }
    profile.samples = samples(counts);
    profile
}

fn samples(counts: BTreeMap<(StackId, ThreadIndex), u64>) -> Vec<Sample> {
    let sample = |((stack, thread), count)| Sample {
        stack,
        thread,
        task: None,
        count,
        value: count * PERIOD_NS,
    };
    counts.into_iter().map(sample).collect()
}

/// An instruction: the number of its function, and its number in the function.
type Instruction = (u32, u32);

/// Functions of the C library and of the kernel; the others are the interpreter's.
const LIBRARY: std::ops::Range<u32> = 60..80;
const KERNEL: std::ops::Range<u32> = 200..240;

/// Native frames above the Python frames of a sample, leaf first: half of the samples are in one of 80
/// functions that the interpreter calls, hot at some dozens of instructions each, with up to three
/// callers. One of sixteen is in the kernel.
fn instructions(random: &mut Random) -> Vec<Instruction> {
    let mut stack = Vec::new();
    let is_kernel = random.below(16) == 0;
    if is_kernel {
        stack.push((KERNEL.start + random.below(40), random.below(60)));
        stack.extend((2..7).map(|depth| (KERNEL.start + random.below(40 / depth), 0)));
    }
    if is_kernel || random.below(2) == 0 {
        let at = if is_kernel { 99 } else { random.small(40) };
        stack.push((random.small(80), at));
        for _ in 0..random.below(4) {
            stack.push((80 + random.small(60), 0));
        }
    }
    stack
}

/// The same minute with native and kernel frames.
fn typical_native_minute() -> Profile {
    let mut random = Random(7);
    let mut profile = typical_minute();
    let executable = |path: &str, kind| Executable {
        path: path.into(),
        build_id: Some("0123456789abcdef0123456789abcdef01234567".to_owned()),
        kind,
        start: 0x2_0000,
        limit: 0x40_0000,
        file_offset: 0x2_0000,
    };
    profile.executables = vec![
        executable("/usr/bin/python3.12", ExecutableKind::File),
        executable("/usr/lib/x86_64-linux-gnu/libc.so.6", ExecutableKind::File),
        executable("", ExecutableKind::Kernel),
    ];
    let words = ["Dict", "Long", "Unicode", "Object", "List", "GC", "Tuple"];
    let first_function = length(&profile.functions);
    profile.functions.extend((0..KERNEL.end).map(|id| Function {
        name: format!(
            "Py{}_{}{id}",
            words[id as usize % 7],
            words[random.below(7) as usize]
        ),
        file: String::new(),
        first_line: None,
        kind: if KERNEL.contains(&id) {
            FrameKind::Kernel
        } else {
            FrameKind::Native
        },
    }));
    let mut locations = HashMap::new();
    let mut location = |(function, at): Instruction| {
        *locations.entry((function, at)).or_insert_with(|| {
            profile.locations.push(Location {
                lines: [Line {
                    function: FunctionId(first_function + function),
                    line: None,
                }]
                .into(),
                code: Some(CodeAddress {
                    executable: ExecutableId(if KERNEL.contains(&function) {
                        2
                    } else {
                        LIBRARY.contains(&function).into()
                    }),
                    address: u64::from(0x2_0000 + function * 1471 + at * 7),
                }),
            });
            LocationId(length(&profile.locations) - 1)
        })
    };
    let python = std::mem::take(&mut profile.stacks);
    let mut stacks = HashMap::new();
    let mut counts = BTreeMap::new();
    for sample in std::mem::take(&mut profile.samples) {
        for _ in 0..sample.count {
            let leaf = instructions(&mut random);
            // The start of the interpreter and of its threads.
            let root = (150..157).map(|function| (function, sample.thread.0.min(1)));
            let mut stack: Vec<_> = leaf.into_iter().map(&mut location).collect();
            stack.extend(&python[sample.stack.0 as usize]);
            stack.extend(root.map(&mut location));
            let id = *stacks
                .entry(stack.into_boxed_slice())
                .or_insert_with_key(|stack| {
                    profile.stacks.push(stack.clone());
                    StackId(length(&profile.stacks) - 1)
                });
            *counts.entry((id, sample.thread)).or_default() += 1;
        }
    }
    profile.samples = samples(counts);
    profile
}

fn bytes(profile: &Profile) -> usize {
    let mut bytes = Vec::new();
    write(profile, EncodeOptions::default(), &mut bytes).unwrap();
    bytes.len()
}

#[test]
fn a_minute_is_small() {
    let bytes = bytes(&typical_minute());
    assert!(bytes <= 20_000, "{bytes} bytes");
}

/// Two of three samples have a distinct stack, which takes some 10 bytes.
#[test]
fn a_minute_with_native_frames_is_not_large() {
    let bytes = bytes(&typical_native_minute());
    assert!(bytes <= 60_000, "{bytes} bytes");
}
