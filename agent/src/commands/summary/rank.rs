//! The rows of the tables: functions and processes with the highest values.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
};

use crate::{
    formats::thread_title,
    profile::{FrameKind, Function, Line, Location, ProcessIndex, Profile, Sample},
};

/// Stands for all functions of an executable without symbols.
const UNNAMED: &str = "[no symbol]";

/// Values of a function.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FunctionRow {
    pub(crate) function: Named,
    /// Of samples whose threads run it, or wait in it.
    pub(crate) own: u64,
    /// Of samples with the function anywhere on the stack, each counted once.
    pub(crate) total: u64,
}

/// A function as it is shown; what reads the same is one row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Named {
    pub(crate) name: String,
    /// Of a Python function the file and the first line, of another one the executable; empty for
    /// a marker.
    pub(crate) place: String,
}

impl Named {
    /// The function of a line of a location, or of a location without lines.
    fn new(profile: &Profile, location: &Location, line: Option<&Line>) -> Self {
        let executable = location
            .code
            .map(|code| profile.executable(code.executable));
        let executable = executable.map(|executable| executable.name().into_owned());
        let Some(line) = line else {
            return Self {
                name: UNNAMED.to_owned(),
                place: executable.unwrap_or_default(),
            };
        };
        let function = profile.function(line.function);
        let place = match (function.kind, function.first_line) {
            // All code of a JIT compiler without names.
            (FrameKind::Native, _) if executable.as_ref() == Some(&function.name) => String::new(),
            (FrameKind::Native | FrameKind::Kernel, _) => executable.unwrap_or_default(),
            (FrameKind::Marker, _) => String::new(),
            (FrameKind::Python, Some(line)) => format!("{}:{line}", function.file),
            (FrameKind::Python, None) => function.file.clone(),
        };
        Self {
            name: function.name.clone(),
            place,
        }
    }

    /// The functions of a location, the innermost first.
    pub(crate) fn of(profile: &Profile, location: &Location) -> Vec<Self> {
        if location.lines.is_empty() {
            return vec![Self::new(profile, location, None)];
        }
        let lines = location.lines.iter();
        lines
            .map(|line| Self::new(profile, location, Some(line)))
            .collect()
    }

    /// The innermost Python function of a stack below so many markers that is `wanted`, or the innermost
    /// function.
    pub(crate) fn innermost(
        profile: &Profile,
        sample: &Sample,
        markers: usize,
        wanted: impl Fn(&Function) -> bool,
    ) -> Option<Self> {
        let stack = profile.stacks[sample.stack.0 as usize].iter();
        let mut first = None;
        for id in stack.skip(markers) {
            let location = profile.location(*id);
            for (named, line) in Self::of(profile, location).into_iter().zip(&location.lines) {
                let function = profile.function(line.function);
                if function.kind == FrameKind::Python && wanted(function) {
                    return Some(named);
                }
                first.get_or_insert(named);
            }
        }
        first
    }
}

/// The functions of a profile as they are shown.
#[derive(Debug)]
pub(crate) struct NamedFunctions {
    /// Each once.
    pub(crate) functions: Vec<Named>,
    /// Indices of the functions of each location, the innermost first.
    locations: Vec<Vec<usize>>,
}

impl NamedFunctions {
    pub(crate) fn of(profile: &Profile) -> Self {
        let mut functions = Vec::new();
        let mut indices = HashMap::new();
        let mut index = |function: Named| {
            *indices.entry(function).or_insert_with_key(|function| {
                functions.push(function.clone());
                functions.len() - 1
            })
        };
        let locations = profile.locations.iter();
        let locations = locations
            .map(|location| {
                let functions = Named::of(profile, location).into_iter();
                functions.map(&mut index).collect()
            })
            .collect();
        Self {
            functions,
            locations,
        }
    }

    /// Adds the threads of a profile, as what its functions are called by; returns the index of each.
    pub(crate) fn add_threads(&mut self, profile: &Profile) -> Vec<usize> {
        let first = self.functions.len();
        let named = profile.threads.iter().map(|thread| Named {
            name: thread_title(profile, thread),
            place: String::new(),
        });
        self.functions.extend(named);
        (first..self.functions.len()).collect()
    }

    /// The index of the function of a sample that runs or [waits](Profile::leaf_of).
    fn leaf(&self, profile: &Profile, sample: &Sample) -> Option<usize> {
        let leaf = profile.leaf_of(sample)?;
        self.locations[leaf.0 as usize].first().copied()
    }

    /// Indices of the functions of a sample, leaf first, without the markers that say what its thread does:
    /// the function that waits is the leaf, not what it waits for.
    pub(crate) fn stack<'a>(
        &'a self,
        profile: &'a Profile,
        sample: &Sample,
    ) -> impl DoubleEndedIterator<Item = usize> + 'a {
        let stack = &profile.stacks[sample.stack.0 as usize];
        let stack = stack.iter().skip(profile.leaf_markers(sample).count);
        stack.flat_map(|id| &self.locations[id.0 as usize]).copied()
    }
}

/// All functions, the highest value first.
pub(crate) fn hottest_functions(profile: &Profile) -> Vec<FunctionRow> {
    let named = NamedFunctions::of(profile);
    let mut values = vec![(0, 0); named.functions.len()];
    let mut seen = HashSet::new();
    for sample in &profile.samples {
        seen.clear();
        if let Some(leaf) = named.leaf(profile, sample) {
            values[leaf].0 += sample.value;
        }
        for index in named.stack(profile, sample) {
            if seen.insert(index) {
                values[index].1 += sample.value;
            }
        }
    }
    let rows = named.functions.into_iter().zip(values);
    let mut rows: Vec<_> = rows
        .filter(|&(_, (_, total))| total != 0)
        .map(|(function, (own, total))| FunctionRow {
            function,
            own,
            total,
        })
        .collect();
    // The sort is stable: of equals the first one stays first.
    rows.sort_by_key(|row| Reverse((row.own, row.total)));
    rows
}

/// All sampled processes with their values, the highest first.
pub(crate) fn busiest_processes(profile: &Profile) -> Vec<(ProcessIndex, u64)> {
    let ids = 0..u32::try_from(profile.processes.len()).unwrap_or(u32::MAX);
    let mut rows: Vec<_> = ids.map(|id| (ProcessIndex(id), 0)).collect();
    for sample in &profile.samples {
        rows[profile.process_of(sample).0 as usize].1 += sample.value;
    }
    rows.retain(|&(_, value)| value != 0);
    rows.sort_by_key(|&(process, value)| (Reverse(value), process));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::fixtures::{PERIOD_NS, example_processes, example_profile};

    /// The values of a function in sampling periods.
    fn counts(row: &FunctionRow) -> (u64, u64) {
        (row.own / PERIOD_NS, row.total / PERIOD_NS)
    }

    #[test]
    fn recursion_counts_once_in_a_stack() {
        let profile = example_profile("");
        let rows = hottest_functions(&profile);
        assert_eq!(counts(&rows[0]), (150, 150));
        assert!(rows.iter().all(|row| row.total <= profile.total_value()));
        let own: u64 = rows.iter().map(|row| row.own).sum();
        assert_eq!(own, profile.total_value());
    }

    #[test]
    fn a_function_is_one_wherever_its_code_is() {
        let rows = hottest_functions(&example_profile(""));
        let row = |name: &str, place: &str| {
            let mut found = rows
                .iter()
                .filter(|row| row.function.name == name && row.function.place == place);
            let row = found.next().unwrap();
            assert_eq!(found.next(), None);
            counts(row)
        };
        // At two addresses, and inlined.
        assert_eq!(row("list_sort_impl", "python3.12"), (0, 20));
        assert_eq!(row("binarysort", "python3.12"), (0, 20));
        assert_eq!(row("memchr::<u8>", "_speedups.abi3.so"), (6, 6));
        assert_eq!(row("vfs_write", "[kernel]"), (0, 20));
        assert_eq!(row("ext4_file_write_iter", "[ext4]"), (20, 20));
        assert_eq!(row(UNNAMED, "_speedups.abi3.so"), (0, 9));
        assert_eq!(row(UNNAMED, "[jit]"), (3, 3));
    }

    #[test]
    fn processes_have_the_samples_of_their_threads() {
        let mut profile = example_processes("");
        let rows =
            [(0, 400), (1, 110), (2, 7)].map(|(id, count)| (ProcessIndex(id), count * PERIOD_NS));
        assert_eq!(busiest_processes(&profile), rows);
        profile.samples.retain(|sample| sample.thread.0 > 3);
        assert_eq!(busiest_processes(&profile), rows[1..]);
    }
}
