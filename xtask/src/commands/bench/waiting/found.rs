//! What a profiler found, in the folded stacks that all of them write.

use anyhow::Result;

use super::super::profiler::Folded;
use super::stamps::FUNCTIONS;
use crate::commands::observe::stats::float;

/// Seconds in each function, anywhere on the stack.
pub(super) fn seconds(text: &str, units_per_second: f64) -> Result<[f64; FUNCTIONS.len()]> {
    // austin has empty lines, and some that say how long it has sampled.
    let is_stack = |line: &&str| !line.is_empty() && !line.starts_with('#');
    let stacks: Vec<_> = text.lines().filter(is_stack).collect();
    let mut found = [0; FUNCTIONS.len()];
    for (stack, value) in Folded::parse(&stacks.join("\n"))?.iter() {
        if let Some(nth) = stack.split(';').rev().find_map(function) {
            found[nth] += value;
        }
    }
    Ok(found.map(|units| float(units) / units_per_second))
}

/// The function of a frame: `name (file:line)`, `file:name:line`.
fn function(frame: &str) -> Option<usize> {
    let mut words = frame.split([' ', ':']);
    words.find_map(|word| FUNCTIONS.iter().position(|function| *function == word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ways_to_write_a_frame_are_read() {
        let text = "\
# mode: wall
python (1);work (waits.py:85);computes (/a/waits.py:29) 5

P1;T0:2;/a/waits.py:work:85;/a/waits.py:hashes:38 20
tid:3;threading.py:Thread.run:1161;waits.py:work:85;waits.py:computes:29 7
MainThread;<module> (waits.py:106) 100
";
        let found = seconds(text, 2.0).unwrap();
        assert_eq!(found.to_vec(), [6.0, 10.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        assert!(seconds("nothing\n", 1.0).is_err());
        assert!(seconds("stack x\n", 1.0).is_err());
    }
}
