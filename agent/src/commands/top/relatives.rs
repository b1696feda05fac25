//! Callers and callees of a function, in the last windows.

use foldhash::{HashMap, HashSet};

use super::{
    frames::FunctionRef,
    history::History,
    rows::Query,
    window::{Activity, Sample},
};

/// A function with what calls it and what it calls.
#[derive(Clone, Debug)]
pub(super) struct Relatives {
    pub(super) function: FunctionRef,
    /// Nanoseconds in the function itself, and in it and all that it calls.
    pub(super) own: u64,
    pub(super) total: u64,
    /// Nanoseconds of all samples.
    pub(super) whole: u64,
    /// Nanoseconds of the function with each caller, the longest first.
    pub(super) callers: Vec<(FunctionRef, u64)>,
    /// Nanoseconds in each callee, the longest first.
    pub(super) callees: Vec<(FunctionRef, u64)>,
}

impl Relatives {
    /// Those of a function. In a stack with the function several times each caller and callee counts
    /// once.
    pub(super) fn new(history: &History, query: &Query<'_>, function: FunctionRef) -> Self {
        let mut relatives = Self {
            function,
            own: 0,
            total: 0,
            whole: 0,
            callers: Vec::new(),
            callees: Vec::new(),
        };
        let (mut above, mut below) = (HashMap::default(), HashMap::default());
        let windows = history.series(query.event).newest_first();
        for window in windows.take(query.windows) {
            let samples = window.samples.iter().filter(|it| query.scope.has(it));
            for sample in samples.filter(|it| it.activity != Activity::Idle) {
                relatives.add(sample, query, &mut above, &mut below);
            }
        }
        relatives.callers = longest_first(above);
        relatives.callees = longest_first(below);
        relatives
    }

    fn add(
        &mut self,
        sample: &Sample,
        query: &Query<'_>,
        above: &mut HashMap<FunctionRef, u64>,
        below: &mut HashMap<FunctionRef, u64>,
    ) {
        self.whole += sample.value;
        let frames = sample.stack.shown(query.detail);
        let functions: Vec<_> = frames.map(|frame| &frame.function).collect();
        let mut seen = HashSet::default();
        let mut is_first = true;
        for (depth, function) in functions.iter().enumerate() {
            if **function != self.function {
                continue;
            }
            if is_first {
                self.total += sample.value;
                is_first = false;
            }
            if depth == 0 {
                self.own += sample.value;
            }
            let outer = functions.get(depth + 1).copied();
            let inner = depth.checked_sub(1).map(|index| functions[index]);
            for (is_called, relative) in [(false, outer), (true, inner)] {
                let Some(relative) = relative.filter(|it| **it != self.function) else {
                    continue;
                };
                if seen.insert((is_called, relative)) {
                    let times = if is_called { &mut *below } else { &mut *above };
                    *times.entry(relative.clone()).or_default() += sample.value;
                }
            }
        }
    }
}

fn longest_first(times: HashMap<FunctionRef, u64>) -> Vec<(FunctionRef, u64)> {
    let mut times: Vec<_> = times.into_iter().collect();
    times.sort_by(|(a, one), (b, other)| {
        let names = || {
            let (a, b) = (a.get(), b.get());
            (&a.name, &a.place).cmp(&(&b.name, &b.place))
        };
        other.cmp(one).then_with(names)
    });
    times
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        commands::top::{frames::Functions, rows::Key, rows::Table},
        profile::fixtures::{PERIOD_NS, example_profile},
    };

    /// Names of functions, with times.
    type Pairs = Vec<(String, u64)>;

    /// Callers and callees of a function of the example, with their time in sampling periods.
    fn relatives(name: &str) -> (u64, u64, Pairs, Pairs) {
        let mut history = History::default();
        history.add(
            &[example_profile("app.py")],
            Duration::ZERO,
            &mut Functions::default(),
        );
        let query = Query {
            windows: 10,
            ..Query::default()
        };
        let rows = Table::new(&history, &query).rows;
        let row = rows.into_iter().find(|row| row.name == name).unwrap();
        let Key::Function(function) = row.key else {
            panic!("{:?}", row.key);
        };
        let relatives = Relatives::new(&history, &query, function);
        assert_eq!((relatives.own, relatives.total), (row.own, row.total));
        let texts = |all: Vec<(FunctionRef, u64)>| {
            let texts = all.into_iter();
            texts
                .map(|(it, time)| (it.get().name.clone(), time / PERIOD_NS))
                .collect()
        };
        (
            relatives.own / PERIOD_NS,
            relatives.total / PERIOD_NS,
            texts(relatives.callers),
            texts(relatives.callees),
        )
    }

    fn pairs(all: &[(&str, u64)]) -> Vec<(String, u64)> {
        all.iter()
            .map(|(it, time)| ((*it).to_owned(), *time))
            .collect()
    }

    #[test]
    fn recursion_is_no_caller_and_counts_once() {
        assert_eq!(
            relatives("fib"),
            (150, 150, pairs(&[("main", 150)]), pairs(&[]))
        );
    }

    #[test]
    fn callers_and_callees_have_the_time_of_their_samples() {
        let (own, total, callers, called) = relatives("get");
        let sum = |functions: &[(String, u64)]| functions.iter().map(|(_, time)| time).sum::<u64>();
        assert_eq!(callers[0], ("main".to_owned(), 156));
        assert_eq!(called[0], ("loads".to_owned(), 150));
        // Some of its stacks have no caller, and no frame is its own leaf.
        assert!(sum(&callers) < total);
        assert_eq!(own + sum(&called), total);
    }
}
