//! Two profiles of one kind, function by function.
//!
//! Samples are random: a profile that is taken again differs, by as much as its [noise](Noise) says; of a clock it is
//! less. A change counts only beyond three standard errors.

use std::{cmp::Ordering, collections::HashMap};

use super::noise::{Noise, to_float};
use crate::{
    commands::summary::{FunctionRow, Named, hottest_functions, in_tables},
    formats::EncodeOptions,
    profile::{Kind, LineNumbers, Profile},
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

/// A value of one profile, and its variance in the [unit of noise](Noise::unit).
#[derive(Clone, Copy, Default)]
struct Measured {
    value: u64,
    variance: u64,
}

/// The values of a function in one profile.
#[derive(Clone, Copy, Default)]
struct Measurement {
    own: Measured,
    total: Measured,
}

/// One profile: the factor of its values, and the unit of their variances.
#[derive(Clone, Copy)]
struct Scale {
    factor: f64,
    noise: f64,
}

impl Scale {
    fn value(self, measured: Measured) -> f64 {
        self.factor * to_float(measured.value)
    }

    fn variance(self, measured: Measured) -> f64 {
        self.factor.powi(2) * self.noise * to_float(measured.variance)
    }
}

/// The change of values before and after.
fn change(scales: [Scale; 2], values: [Measured; 2]) -> Change {
    let ([before, after], [scale_before, scale_after]) = (values, scales);
    let variance = scale_before.variance(before) + scale_after.variance(after);
    Change {
        before: scale_before.value(before),
        after: scale_after.value(after),
        noise: STANDARD_ERRORS * variance.sqrt(),
    }
}

impl Comparison {
    /// Compares two profiles of one kind that both have samples, with their functions as tables show them.
    pub(super) fn new(profiles: [&Profile; 2], normalize: bool, encoding: EncodeOptions) -> Self {
        let noises = profiles.map(Noise::of);
        let totals = profiles.map(|profile| to_float(profile.total_value()));
        let factor = if normalize {
            totals[1] / totals[0].max(1.0)
        } else {
            1.0
        };
        let scale = |factor, noise: &Noise<'_>| Scale {
            factor,
            noise: noise.unit,
        };
        let scales = [scale(factor, &noises[0]), scale(1.0, &noises[1])];
        let mut values = HashMap::<Named, [Measurement; 2]>::new();
        let mut all = [Measured::default(); 2];
        for (side, (profile, noise)) in profiles.into_iter().zip(&noises).enumerate() {
            all[side] = Measured {
                value: profile.total_value(),
                variance: noise.values.total_value(),
            };
            for row in functions(profile, encoding) {
                let measured = &mut values.entry(row.function).or_default()[side];
                (measured.own.value, measured.total.value) = (row.own, row.total);
            }
            for row in functions(&noise.values, encoding) {
                let measured = &mut values.entry(row.function).or_default()[side];
                (measured.own.variance, measured.total.variance) = (row.own, row.total);
            }
        }
        let known = values.len();
        let functions = values
            .into_iter()
            .map(|(function, measured)| FunctionChange {
                function,
                own: change(scales, measured.map(|it| it.own)),
                total: change(scales, measured.map(|it| it.total)),
            });
        let mut functions: Vec<_> = functions
            .filter(|it| it.own.is_real() || it.total.is_real())
            .collect();
        functions.sort_by(order);
        Self {
            kind: profiles[0].kind,
            all: change(scales, all),
            is_normalized: normalize,
            unchanged: known - functions.len(),
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

/// The functions of a profile as tables show them, without lines.
fn functions(profile: &Profile, encoding: EncodeOptions) -> Vec<FunctionRow> {
    let encoding = EncodeOptions {
        line_numbers: LineNumbers::Hidden,
        ..encoding
    };
    hottest_functions(&in_tables(profile, encoding))
}

fn order(one: &FunctionChange, other: &FunctionChange) -> Ordering {
    let sizes = |it: &FunctionChange| (it.own.difference().abs(), it.total.difference().abs());
    let (one_sizes, other_sizes) = (sizes(one), sizes(other));
    let by_size = other_sizes.0.total_cmp(&one_sizes.0);
    by_size
        .then(other_sizes.1.total_cmp(&one_sizes.1))
        .then_with(|| one.function.cmp(&other.function))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        formats::{FunctionNames, Internals},
        profile::{
            fixtures::{example_profile, of_kind},
            kinds::{allocations, exceptions},
        },
    };

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

    fn compare(before: &Profile, after: &Profile, normalize: bool) -> Comparison {
        Comparison::new([before, after], normalize, EncodeOptions::default())
    }

    fn named(comparison: &Comparison) -> Vec<&str> {
        let functions = comparison.functions.iter();
        functions.map(|it| it.function.name.as_str()).collect()
    }

    #[test]
    fn a_profile_does_not_differ_from_itself() {
        let comparison = compare(&profile(1, 1), &profile(1, 1), false);
        assert!(comparison.functions.is_empty());
        assert!(!comparison.all.is_real());
        assert!(comparison.grown(0.0).is_none());
        assert!(comparison.unchanged > 10);
    }

    #[test]
    fn a_function_that_grew_is_the_first() {
        let comparison = compare(&profile(10, 1), &profile(10, 2), false);
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
        let few = compare(&profile(1, 1), &profile(1, 2), false);
        assert_eq!(named(&few)[0], "fib");
        let mut more = profile(1, 1);
        more.samples[0].count += 30;
        more.samples[0].value += 30 * more.period;
        let comparison = compare(&profile(1, 1), &more, false);
        assert!(comparison.functions.is_empty());
        assert!(comparison.grown(0.01).is_none());
    }

    /// The example with the values of all stacks multiplied, as another kind.
    fn of(kind: &'static Kind, multiply: impl Fn(&mut u64, &mut u64)) -> Profile {
        let mut profile = of_kind(example_profile("main.py"), kind);
        for sample in &mut profile.samples {
            multiply(&mut sample.count, &mut sample.value);
        }
        profile
    }

    #[test]
    fn allocations_change_beyond_the_noise_of_what_was_sampled() {
        // 400 samples, each for a thousand small allocations, and a tenth more: the standard error is a fourteenth.
        let allocated = |tenths| {
            of(&allocations::KIND, |count, value| {
                *count *= 100 * tenths;
                *value = *value * tenths / 10;
            })
        };
        let chance = compare(&allocated(10), &allocated(11), false);
        assert!(chance.functions.is_empty(), "{:?}", named(&chance));
        assert!(!chance.all.is_real() && chance.grown(0.01).is_none());
        let doubled = compare(&allocated(10), &allocated(20), false);
        assert!(doubled.grown(0.9).unwrap().function.is_none());
    }

    #[test]
    fn exceptions_change_beyond_the_noise_that_was_recorded() {
        let raised = |times, raise_variance| {
            let mut profile = of(&exceptions::KIND, |count, value| {
                *count *= times;
                *value *= times;
            });
            profile.losses.raise_variance = raise_variance;
            profile
        };
        let exact = compare(&raised(100, 0), &raised(110, 0), false);
        assert!(exact.grown(0.05).unwrap().function.is_none());
        // The standard error of 40,000 is 2,000.
        let [before, after] = [raised(100, 4_000_000), raised(110, 4_000_000)];
        for normalize in [false, true] {
            let chance = compare(&before, &after, normalize);
            assert!(chance.functions.is_empty(), "{:?}", named(&chance));
            assert!(chance.grown(0.01).is_none());
        }
    }

    #[test]
    fn profiles_of_different_length_are_normalized() {
        let (short, long) = (profile(10, 1), profile(30, 1));
        let comparison = compare(&short, &long, true);
        assert!(comparison.functions.is_empty(), "{:?}", named(&comparison));
        let comparison = compare(&short, &long, false);
        assert!(comparison.grown(1.9).unwrap().function.is_none());
    }

    #[test]
    fn a_function_that_moved_in_its_file_is_the_same() {
        let mut moved = profile(10, 1);
        for function in &mut moved.functions {
            function.first_line = function.first_line.and_then(|line| line.checked_add(7));
        }
        let comparison = compare(&profile(10, 1), &moved, false);
        assert!(comparison.functions.is_empty());
    }

    #[test]
    fn functions_are_compared_as_tables_show_them() {
        let [before, after] = [profile(10, 1), profile(20, 1)];
        let names = |encoding| {
            let comparison = Comparison::new([&before, &after], false, encoding);
            let functions = comparison.functions.into_iter();
            functions.map(|it| it.function.name).collect::<Vec<_>>()
        };
        let default = names(EncodeOptions::default());
        assert!(default.contains(&"main".to_owned()), "{default:?}");
        assert!(
            !default.contains(&"list_sort_impl".to_owned()),
            "{default:?}"
        );
        let internals = names(EncodeOptions {
            internals: Internals::Shown,
            ..EncodeOptions::default()
        });
        assert!(
            internals.contains(&"list_sort_impl".to_owned()),
            "{internals:?}"
        );
        let modules = names(EncodeOptions {
            function_names: FunctionNames::Module,
            ..EncodeOptions::default()
        });
        assert!(modules.contains(&"json.loads".to_owned()), "{modules:?}");
    }
}
