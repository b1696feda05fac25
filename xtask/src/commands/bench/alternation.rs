//! Windows with profilers between windows without one, in turn.
//!
//! ```text
//! OFF  one profiler  OFF  another one  OFF  one profiler  OFF  …
//! ```

use anyhow::Result;

use crate::commands::observe::stats::{largest, least, median};

/// Windows in the order in which they were.
pub(super) struct Alternation<A, W> {
    /// Those without a profiler.
    pub(super) without: Vec<A>,
    /// Those of each profiler, with the number of windows without one that precede it; or why it failed.
    pub(super) with: Vec<Result<Vec<(usize, W)>>>,
}

/// Measures so many windows of each contender; one that fails is left out from then on.
pub(super) fn alternate<C, A, W>(
    contenders: &[C],
    rounds: u32,
    mut without: impl FnMut() -> Result<A>,
    mut with: impl FnMut(&C) -> Result<W>,
) -> Result<Alternation<A, W>> {
    let mut alone = vec![without()?];
    let mut found: Vec<_> = contenders.iter().map(|_| Ok(Vec::new())).collect();
    for _ in 0..rounds {
        for (contender, found) in contenders.iter().zip(&mut found) {
            let Ok(windows) = found else { continue };
            match with(contender) {
                Ok(window) => windows.push((alone.len(), window)),
                Err(error) => *found = Err(error),
            }
            alone.push(without()?);
        }
    }
    Ok(Alternation {
        without: alone,
        with: found,
    })
}

/// By how many percent a value is less than the mean of those beside it.
pub(super) fn fall(value: f64, before: f64, after: f64) -> f64 {
    100.0 * (1.0 - value / f64::midpoint(before, after))
}

/// A figure of several windows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Middle {
    /// In the middle one.
    pub(super) median: f64,
    /// By how much the windows differ from each other, to both sides.
    pub(super) spread: f64,
}

impl Middle {
    /// Of the figures of windows; [`None`] where there are none.
    pub(super) fn of(windows: &[f64]) -> Option<Self> {
        let all = || windows.iter().copied();
        Some(Self {
            median: median(all())?,
            spread: (largest(all())? - least(all())?) / 2.0,
        })
    }
}
