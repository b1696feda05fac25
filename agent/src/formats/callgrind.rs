//! Callgrind's format, which `callgrind_annotate`, `KCachegrind` and gprof2dot read: functions with their own cost by
//! line, and calls with the cost of what they call.
//!
//! Costs are what the kind measures and, as a second event, samples; `calls` are samples with the call too, since
//! nobody counted calls.
//!
//! Recursion: of the calls of a function in a stack, the innermost one has the cost, and the others have none.
//! So a function's own cost and that of its calls are together the cost of the samples with the function, however
//! often it is in their stacks, and no function has more than all; every call is there for the call graph.
//!
//! Source of the format: <https://valgrind.org/docs/manual/cl-format.html>.
//!
//! Invariants: functions are told apart by name, file and object, as readers tell them apart; besides the profile,
//! memory is needed for the distinct frames, lines of functions and calls, not for stacks.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashSet},
    io::{self, Write},
    num::NonZeroU32,
};

use indexmap::IndexSet;

use super::{
    folded::NO_FRAMES,
    options::EncodeOptions,
    shown_frame::{FrameTable, ShownFrame, executable_path},
    thread_stacks::{process_title, with_id},
};
use crate::{
    profile::{Amount, FrameKind, Profile, Sample, SampleType, Unit},
    text::printable,
};

/// What the format has where a file or an object is not known.
const UNKNOWN: &str = "???";

/// Stands for the executable of Python functions.
const PYTHON: &str = "[python]";

/// Writes a profile.
pub(super) fn write(
    table: &FrameTable<'_>,
    options: EncodeOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let profile = table.profile();
    let mut costs = Costs::new(table);
    for sample in &profile.samples {
        costs.add(sample, options.threads);
    }
    write_header(profile, out)?;
    costs.write(out)
}

fn write_header(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "# callgrind format\nversion: 1")?;
    let [name, version] = [env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")];
    writeln!(out, "creator: {name} {version}")?;
    if let [process] = &*profile.processes {
        if process.pid != 0 {
            writeln!(out, "pid: {}", process.pid)?;
        }
        writeln!(out, "cmd: {}", printable(&process.name))?;
    }
    let SampleType { name, unit, .. } = profile.kind.names.sample_types[1];
    let event = event(profile);
    writeln!(out, "positions: line\nevent: {event} : {name}, {unit}")?;
    writeln!(out, "event: samples : samples\nevents: {event} samples")?;
    writeln!(out, "summary: {}\n", columns(total(profile)))
}

/// Name of the event that the kind measures: a word, as readers require.
fn event(profile: &Profile) -> String {
    let name = profile.kind.name.replace('-', "_");
    match profile.kind.unit {
        Unit::Nanoseconds => format!("{name}_ns"),
        Unit::Events => name,
        Unit::Bytes => format!("{name}_bytes"),
    }
}

fn total(profile: &Profile) -> Amount {
    Amount {
        count: profile.total(),
        value: profile.total_value(),
    }
}

fn columns(amount: Amount) -> String {
    format!("{} {}", amount.value, amount.count)
}

/// A function as readers tell it from others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Identity<'a> {
    name: Cow<'a, str>,
    file: Cow<'a, str>,
    object: Cow<'a, str>,
}

/// Costs of a function.
#[derive(Default)]
struct FunctionCosts {
    /// Where it begins, or its first line in a sample; 0 where neither is known.
    first_line: u32,
    /// Its own, by line.
    own: BTreeMap<u32, Amount>,
    /// Calls and their costs, by line and by the index of the called function.
    calls: BTreeMap<(u32, usize), (u64, Amount)>,
}

/// Costs of all functions.
struct Costs<'a> {
    table: &'a FrameTable<'a>,
    /// Functions of the frames of the table, and their lines.
    places: Vec<Place>,
    /// Functions, by the indices of [`functions`](Self::functions).
    identities: IndexSet<Identity<'a>>,
    functions: Vec<FunctionCosts>,
}

/// A function by its index, and a line, or 0.
type Place = (usize, u32);

impl<'a> Costs<'a> {
    fn new(table: &'a FrameTable<'a>) -> Self {
        let mut costs = Self {
            table,
            places: Vec::new(),
            identities: IndexSet::new(),
            functions: Vec::new(),
        };
        for frame in table.frames() {
            let function = costs.function(identity(table.profile(), frame));
            let line = frame.line.map_or(0, NonZeroU32::get);
            let first = frame.first_line.map_or(line, NonZeroU32::get);
            let known = &mut costs.functions[function].first_line;
            if *known == 0 || (1..*known).contains(&first) {
                *known = first;
            }
            costs.places.push((function, line));
        }
        costs
    }

    /// The index of a function.
    fn function(&mut self, identity: Identity<'a>) -> usize {
        let (index, is_new) = self.identities.insert_full(identity);
        if is_new {
            self.functions.push(FunctionCosts::default());
        }
        index
    }

    /// The place of something that is no function.
    fn pseudo(&mut self, name: String) -> Place {
        let identity = Identity {
            name: name.into(),
            file: UNKNOWN.into(),
            object: UNKNOWN.into(),
        };
        (self.function(identity), 0)
    }

    fn add(&mut self, sample: &Sample, threads: bool) {
        let profile = self.table.profile();
        let mut path = Vec::new();
        if profile.processes.len() > 1 {
            path.push(self.pseudo(process_title(profile, profile.process_of(sample).0)));
        }
        if threads {
            let thread = &profile.threads[sample.thread.0 as usize];
            path.push(self.pseudo(with_id(&thread.name, thread.tid)));
        }
        let stack = self.table.stack(&profile.stacks[sample.stack.0 as usize]);
        path.extend(stack.iter().map(|frame| self.places[*frame as usize]));
        if stack.is_empty() {
            path.push(self.pseudo(NO_FRAMES.to_owned()));
        }
        self.add_path(&path, sample.amount());
    }

    /// Adds a stack, root first.
    fn add_path(&mut self, path: &[Place], amount: Amount) {
        let Some(&(leaf, line)) = path.last() else {
            return;
        };
        *self.functions[leaf].own.entry(line).or_default() += amount;
        // Of the function of the leaf, the own cost is all.
        let mut counted = HashSet::from([leaf]);
        for pair in path.windows(2).rev() {
            let [(caller, line), (target, _)] = *pair else {
                continue;
            };
            let calls = &mut self.functions[caller].calls;
            let (count, cost) = calls.entry((line, target)).or_default();
            *count = count.saturating_add(amount.count);
            if counted.insert(caller) {
                *cost += amount;
            }
        }
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut names = Names::default();
        for (identity, costs) in self.identities.iter().zip(&self.functions) {
            writeln!(out, "ob={}", names.objects.reference(&identity.object))?;
            writeln!(out, "fl={}", names.files.reference(&identity.file))?;
            writeln!(out, "fn={}", names.functions.reference(identity))?;
            for (line, amount) in &costs.own {
                writeln!(out, "{line} {}", columns(*amount))?;
            }
            for (&(line, callee), &(count, amount)) in &costs.calls {
                let first_line = self.functions[callee].first_line;
                let callee = &self.identities[callee];
                writeln!(out, "cob={}", names.objects.reference(&callee.object))?;
                writeln!(out, "cfi={}", names.files.reference(&callee.file))?;
                writeln!(out, "cfn={}", names.functions.reference(callee))?;
                writeln!(out, "calls={count} {first_line}")?;
                writeln!(out, "{line} {}", columns(amount))?;
            }
            writeln!(out)?;
        }
        writeln!(out, "totals: {}", columns(total(self.table.profile())))
    }
}

fn identity<'a>(profile: &'a Profile, frame: &ShownFrame<'a>) -> Identity<'a> {
    let executable = frame.executable.map(|id| profile.executable(id));
    let object = match (frame.kind, executable) {
        (FrameKind::Python, _) => PYTHON.into(),
        (_, Some(executable)) => single_line(executable_path(executable)),
        (_, None) => UNKNOWN.into(),
    };
    let file = match frame.file.trim() {
        "" => UNKNOWN.into(),
        _ => frame.file.clone(),
    };
    Identity {
        name: frame.function.clone(),
        file,
        object,
    }
}

fn single_line(text: Cow<'_, str>) -> Cow<'_, str> {
    match printable(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(printable) => printable.into(),
    }
}

/// Names that are written once, and then their numbers.
#[derive(Default)]
struct Names<'a> {
    objects: Numbers<&'a str>,
    files: Numbers<&'a str>,
    functions: Numbers<&'a Identity<'a>>,
}

struct Numbers<T>(IndexSet<T>);

impl<T> Default for Numbers<T> {
    fn default() -> Self {
        Self(IndexSet::new())
    }
}

/// What has a name.
trait Named {
    fn name(&self) -> &str;
}

impl Named for &str {
    fn name(&self) -> &str {
        self
    }
}

impl Named for &Identity<'_> {
    fn name(&self) -> &str {
        &self.name
    }
}

impl<T: Named + Copy + Eq + std::hash::Hash> Numbers<T> {
    /// `(3) name` for the first time, then `(3)`.
    fn reference(&mut self, of: T) -> String {
        let (index, is_new) = self.0.insert_full(of);
        let number = index + 1;
        if is_new {
            format!("({number}) {}", of.name().trim())
        } else {
            format!("({number})")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        formats::{
            Format,
            golden::{assert_golden, written},
        },
        profile::{
            StackId,
            fixtures::{example_processes, example_profile, of_kind},
            kinds::page_faults,
        },
    };

    fn callgrind(profile: &Profile, threads: bool) -> String {
        String::from_utf8(written(Format::Callgrind, profile, threads)).unwrap()
    }

    #[test]
    fn functions_have_costs_and_calls() {
        for (name, threads, profile) in [
            ("example", false, example_profile("/srv/app/main.py")),
            ("processes", true, example_processes("/srv/app/main.py")),
        ] {
            let text = callgrind(&profile, threads);
            let text = text.replace(env!("CARGO_PKG_VERSION"), "VERSION");
            assert_golden(&format!("{name}.callgrind"), &text);
        }
    }

    #[test]
    fn the_unit_is_that_of_the_kind() {
        let profile = example_profile("/srv/app/main.py");
        assert!(callgrind(&profile, false).contains("\nevents: cpu_ns samples\n"));
        let faults = of_kind(profile, &page_faults::KIND);
        let text = callgrind(&faults, false);
        assert!(text.contains("\nevents: page_faults samples\n"));
        let (value, count) = (faults.total_value(), faults.total());
        assert!(text.contains(&format!("\nsummary: {value} {count}\n")));
    }

    #[test]
    fn a_function_and_its_calls_cost_what_its_samples_do() {
        // f calls g, which calls f again, which calls itself.
        let mut profile = example_profile("/srv/app/main.py");
        let (f, g, h) = (
            profile.stacks[0][0],
            profile.stacks[2][0],
            profile.stacks[6][0],
        );
        profile.stacks = vec![
            Box::from([h, f, f, g, f, h]),
            Box::from([f, g]),
            Box::from([g, f, g]),
            Box::from([]),
        ];
        let sample = profile.samples[0];
        profile.samples = (0..)
            .zip([5, 7, 11, 13])
            .map(|(stack, count)| Sample {
                stack: StackId(stack),
                count,
                value: count * 10,
                ..sample
            })
            .collect();
        let names = EncodeOptions::default().function_names.of(&profile);
        let table = FrameTable::new(&profile, &names, EncodeOptions::default());
        let mut costs = Costs::new(&table);
        for sample in &profile.samples {
            costs.add(sample, false);
        }
        let inclusive = costs.functions.iter().map(|function| {
            let own = function.own.values().copied();
            let calls = function.calls.values().map(|(_, amount)| *amount);
            own.chain(calls).map(|amount| amount.count).sum::<u64>()
        });
        let names = costs.identities.iter().map(|it| it.name.to_string());
        let inclusive: BTreeMap<_, _> = names.zip(inclusive).collect();
        let expected = [
            ("Straße.größe_日本", 5),
            ("fib", 5 + 7 + 11),
            ("Rows.load.<locals>.<lambda>", 5 + 7 + 11),
            ("[no frames]", 13),
        ];
        let expected = expected.map(|(name, cost)| (name.to_owned(), cost));
        assert_eq!(inclusive, BTreeMap::from(expected));
        // All calls are there, those without cost too.
        let calls: usize = costs.functions.iter().map(|it| it.calls.len()).sum();
        assert_eq!(calls, 5);
    }
}
