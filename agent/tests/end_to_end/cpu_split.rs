//! The distribution of CPU time over functions.

use super::{capture::Capture, folded::Folded, machine, source::function_name, target::Target};

/// The share of each function, in per cent.
pub(crate) const SHARES: [(&str, f64); 3] = [("seventy", 70.0), ("twenty", 20.0), ("ten", 10.0)];

/// Tolerated error of the profile, in percentage points.
pub(crate) const TOLERANCE: f64 = 2.0;

/// Required samples. A turn of a function lasts about ten milliseconds, or ten samples: the error
/// is a fraction of a sample at either end of a turn, and a few tenths of a percentage point over
/// this many samples.
const LEAST_SAMPLES: u64 = 2_000;

#[test]
fn the_profile_has_the_shares_of_the_workload() {
    let _machine = machine::alone();
    machine::for_each_kind(|interpreter| {
        let target = Target::start(interpreter, "cpu_split");
        let is_enough = |folded: &Folded| folded.total() >= LEAST_SAMPLES;
        let folded = Capture::folded_until(target.pid(), "-d 4 -r 997", is_enough);
        let total = folded.total();
        let counts = SHARES.map(|(function, _)| {
            let name = function_name(function, interpreter);
            folded.count(|stack| stack.iter().any(|frame| frame.name == name))
        });
        let shares = counts.map(|count| percent(count, total));
        println!("{}: {shares:.2?} of {total} samples", interpreter.name);
        assert!(total >= LEAST_SAMPLES, "only {total} samples");
        for (share, (function, expected)) in shares.into_iter().zip(SHARES) {
            assert!(
                (share - expected).abs() <= TOLERANCE,
                "{function} has {share:.2} % instead of {expected} %"
            );
        }
    });
}

#[expect(
    clippy::cast_precision_loss,
    reason = "so many samples nobody takes that it matters"
)]
fn percent(part: u64, total: u64) -> f64 {
    100.0 * part as f64 / total as f64
}
