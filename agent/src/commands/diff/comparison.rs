//! Two profiles of one kind, function by function.
//!
//! Samples are random: a profile that is taken again differs. With n samples the standard error of their
//! number is √n, if each is taken independently of the others; of a clock it is less. A change counts only
//! beyond three standard errors.

use std::{cmp::Ordering, collections::HashMap};

use crate::{
    commands::summary::{FunctionRow, Named, hottest_functions},
    profile::{Kind, Profile},
};

/// Standard errors beyond which a change is one.
const STANDARD_ERRORS: f64 = 3.0;

/// Two profiles.
#[derive(Debug)]
pub(super) struct Comparison {
    pub(super) kind: &'static Kind,
    /// All samples.
    pub(super) all: Change,
    /// Whether the first profile was scaled to the total of the second.
    pub(super) is_normalized: bool,
    /// The functions whose values have changed, by the change of their own value, the largest first.
    pub(super) functions: Vec<FunctionChange>,
    /// Number of functions that have not changed as far as can be told.
    pub(super) unchanged: usize,
}

/// A function in both profiles.
#[derive(Clone, Debug)]
pub(super) struct FunctionChange {
    /// Without its line, which moves when its file is edited.
    pub(super) function: Named,
    pub(super) own: Change,
    pub(super) total: Change,
}

/// A value in both profiles, in the unit of the kind.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Change {
    pub(super) before: f64,
    pub(super) after: f64,
    /// Three standard errors of the difference.
    pub(super) noise: f64,
}

impl Change {
    pub(super) fn difference(self) -> f64 {
        self.after - self.before
    }

    pub(super) fn is_real(self) -> bool {
        self.difference().abs() > self.noise
    }
}

/// What grew by more than it may.
#[derive(Debug)]
pub(super) struct Grown<'a> {
    /// [`None`] for all functions together.
    pub(super) function: Option<&'a Named>,
    pub(super) change: Change,
}

/// One profile: the factor of its values, and the value of a sample.
#[derive(Clone, Copy)]
struct Scale {
    factor: f64,
    sample: f64,
}

impl Scale {
    fn of(profile: &Profile, factor: f64) -> Self {
        let samples = to_float(profile.total().max(1));
        Self {
            factor,
            sample: factor * to_float(profile.total_value()) / samples,
        }
    }

    fn value(self, value: u64) -> f64 {
        self.factor * to_float(value)
    }
}

impl Comparison {
    /// Compares two profiles of one kind that both have samples.
    pub(super) fn new(before: &Profile, after: &Profile, normalize: bool) -> Self {
        let totals = (
            to_float(before.total_value()),
            to_float(after.total_value()),
        );
        let factor = if normalize {
            totals.1 / totals.0.max(1.0)
        } else {
            1.0
        };
        let scales = (Scale::of(before, factor), Scale::of(after, 1.0));
        let change = |values: (u64, u64)| {
            let (before, after) = (scales.0.value(values.0), scales.1.value(values.1));
            let variance = before * scales.0.sample + after * scales.1.sample;
            Change {
                before,
                after,
                noise: STANDARD_ERRORS * variance.sqrt(),
            }
        };
        let mut values = HashMap::<Named, [(u64, u64); 2]>::new();
        for row in functions(before) {
            let [own, total] = values.entry(row.function).or_default();
            (own.0, total.0) = (row.own, row.total);
        }
        for row in functions(after) {
            let [own, total] = values.entry(row.function).or_default();
            (own.1, total.1) = (row.own, row.total);
        }
        let all = values.len();
        let functions = values
            .into_iter()
            .map(|(function, [own, total])| FunctionChange {
                function,
                own: change(own),
                total: change(total),
            });
        let mut functions: Vec<_> = functions
            .filter(|it| it.own.is_real() || it.total.is_real())
            .collect();
        functions.sort_by(order);
        Self {
            kind: before.kind,
            all: change((before.total_value(), after.total_value())),
            is_normalized: normalize,
            unchanged: all - functions.len(),
            functions,
        }
    }

    /// The part that a change is of all of the first profile.
    pub(super) fn share(&self, change: Change) -> f64 {
        change.difference() / self.all.before.max(1.0)
    }

    /// What grew by more than such a part of all of the first profile: everything together, else the function
    /// whose own value grew most, else the one whose total did.
    pub(super) fn grown(&self, most: f64) -> Option<Grown<'_>> {
        let is_too_much = |change: Change| change.is_real() && self.share(change) > most;
        if is_too_much(self.all) {
            return Some(Grown {
                function: None,
                change: self.all,
            });
        }
        let own = self.functions.iter().map(|it| (it, it.own));
        let total = self.functions.iter().map(|it| (it, it.total));
        let grown = own.chain(total).find(|&(_, change)| is_too_much(change));
        grown.map(|(it, change)| Grown {
            function: Some(&it.function),
            change,
        })
    }
}

/// The functions of a profile, without internals of the interpreter and without lines.
fn functions(profile: &Profile) -> Vec<FunctionRow> {
    let mut profile = profile.without_interpreters();
    for function in &mut profile.functions {
        function.first_line = None;
    }
    hottest_functions(&profile)
}

fn order(one: &FunctionChange, other: &FunctionChange) -> Ordering {
    let sizes = |it: &FunctionChange| (it.own.difference().abs(), it.total.difference().abs());
    let (one_sizes, other_sizes) = (sizes(one), sizes(other));
    let by_size = other_sizes.0.total_cmp(&one_sizes.0);
    by_size
        .then(other_sizes.1.total_cmp(&one_sizes.1))
        .then_with(|| one.function.cmp(&other.function))
}

#[expect(clippy::cast_precision_loss, reason = "what is shown has three digits")]
fn to_float(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::fixtures::example_profile;

    /// The example with so many times the samples, those of `fib` besides multiplied.
    fn profile(times: u64, fib: u64) -> Profile {
        let mut profile = example_profile("main.py");
        for sample in &mut profile.samples {
            let is_fib = sample.stack.0 < 2;
            let factor = if is_fib { times * fib } else { times };
            sample.count *= factor;
            sample.value *= factor;
        }
        profile
    }

    fn named(comparison: &Comparison) -> Vec<&str> {
        let functions = comparison.functions.iter();
        functions.map(|it| it.function.name.as_str()).collect()
    }

    #[test]
    fn a_profile_does_not_differ_from_itself() {
        let comparison = Comparison::new(&profile(1, 1), &profile(1, 1), false);
        assert!(comparison.functions.is_empty());
        assert!(!comparison.all.is_real());
        assert!(comparison.grown(0.0).is_none());
        assert!(comparison.unchanged > 10);
    }

    #[test]
    fn a_function_that_grew_is_the_first() {
        let comparison = Comparison::new(&profile(10, 1), &profile(10, 2), false);
        assert_eq!(named(&comparison)[0], "fib");
        // Its callers have changed with it.
        assert!(named(&comparison).contains(&"main"));
        let fib = &comparison.functions[0];
        assert!((fib.own.before - 15e9).abs() < 1.0 && (fib.own.after - 30e9).abs() < 1.0);
        assert!((comparison.share(fib.own) - 0.375).abs() < 1e-9);
        assert!(comparison.grown(0.37).unwrap().function.is_none());
        assert!(comparison.grown(0.38).is_none());
    }

    #[test]
    fn a_change_within_the_noise_is_none() {
        // 150 samples and 300: their standard errors are 12 and 17.
        let few = Comparison::new(&profile(1, 1), &profile(1, 2), false);
        assert_eq!(named(&few)[0], "fib");
        let mut more = profile(1, 1);
        more.samples[0].count += 30;
        more.samples[0].value += 30 * more.period;
        let comparison = Comparison::new(&profile(1, 1), &more, false);
        assert!(comparison.functions.is_empty());
        assert!(comparison.grown(0.01).is_none());
    }

    #[test]
    fn profiles_of_different_length_are_normalized() {
        let (short, long) = (profile(10, 1), profile(30, 1));
        let comparison = Comparison::new(&short, &long, true);
        assert!(comparison.functions.is_empty(), "{:?}", named(&comparison));
        let comparison = Comparison::new(&short, &long, false);
        assert!(comparison.grown(1.9).unwrap().function.is_none());
    }

    #[test]
    fn a_function_that_moved_in_its_file_is_the_same() {
        let mut moved = profile(10, 1);
        for function in &mut moved.functions {
            function.first_line = function.first_line.and_then(|line| line.checked_add(7));
        }
        let comparison = Comparison::new(&profile(10, 1), &moved, false);
        assert!(comparison.functions.is_empty());
    }
}
