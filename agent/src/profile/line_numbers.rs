//! Profiles with other line numbers than those of the instructions that were sampled.

use std::collections::HashMap;

use super::{indices::LocationId, location::Location, model::Profile};

/// Which line a frame has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LineNumbers {
    /// That of the instruction.
    #[default]
    Current,
    /// The first one of its function, where that is known.
    First,
    /// None.
    Hidden,
}

impl Profile {
    /// The same samples with these lines: frames that differ only by their line become one, as long as they have
    /// no addresses. With [hidden](LineNumbers::Hidden) lines functions have no first line either.
    #[must_use]
    pub fn with_line_numbers(&self, numbers: LineNumbers) -> Self {
        if numbers == LineNumbers::Current {
            return self.clone();
        }
        let mut locations = self.locations.clone();
        let mut first_with = HashMap::<Location, LocationId>::new();
        let mut shown = Vec::new();
        for (index, location) in (0..).zip(&mut locations) {
            for line in &mut location.lines {
                line.line = match numbers {
                    LineNumbers::Hidden => None,
                    _ => self.function(line.function).first_line,
                };
            }
            let first = first_with
                .entry(location.clone())
                .or_insert(LocationId(index));
            shown.push(*first);
        }
        let shown = |id: &LocationId| shown[id.0 as usize];
        let mut profile = self.restacked(|stack| stack.iter().map(shown).collect());
        profile.locations = locations;
        if numbers == LineNumbers::Hidden {
            for function in &mut profile.functions {
                function.first_line = None;
            }
        }
        profile
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{
        FrameKind,
        fixtures::{example_profile, timed},
    };

    /// The Python functions of all stacks, root first, with their lines.
    fn python(profile: &Profile) -> Vec<Vec<(String, u32)>> {
        let stacks = profile.stacks.iter().map(|stack| {
            let lines = stack
                .iter()
                .rev()
                .flat_map(|id| &profile.location(*id).lines);
            let functions = lines.map(|line| (profile.function(line.function), line));
            let python = functions.filter(|(function, _)| function.kind == FrameKind::Python);
            python
                .map(|(function, line)| (function.name.clone(), line.line.map_or(0, u32::from)))
                .collect()
        });
        stacks.collect()
    }

    fn named(stack: &[(&str, u32)]) -> Vec<(String, u32)> {
        let owned = stack.iter().map(|(name, line)| ((*name).to_owned(), *line));
        owned.collect()
    }

    #[test]
    fn lines_of_a_function_are_one() {
        let mut profile = example_profile("/srv/app/main.py");
        // The second stack differs from the first one only by the line of its leaf.
        let mut other_line = profile.stacks[0].clone();
        other_line[0] = other_line[1];
        profile.stacks[1] = other_line;
        let profile = timed(profile);
        let shown = profile.with_line_numbers(LineNumbers::First);
        assert_eq!(
            python(&shown)[0],
            named(&[
                ("<module>", 1),
                ("main", 3),
                ("fib", 7),
                ("fib", 7),
                ("fib", 7)
            ])
        );
        assert_eq!(shown.stacks.len(), profile.stacks.len() - 1);
        assert_eq!(shown.total_value(), profile.total_value());
        for timed in shown.timed_samples() {
            assert!((timed.sample as usize) < shown.samples.len());
        }
    }

    #[test]
    fn hidden_lines_are_nowhere() {
        let profile = example_profile("/srv/app/main.py");
        let shown = profile.with_line_numbers(LineNumbers::Hidden);
        let mut lines = shown.locations.iter().flat_map(|location| &location.lines);
        assert!(lines.all(|line| line.line.is_none()));
        let mut functions = shown.functions.iter();
        assert!(functions.all(|function| function.first_line.is_none()));
        assert_eq!(shown.total_value(), profile.total_value());
    }

    #[test]
    fn current_lines_are_those_of_the_profile() {
        let profile = example_profile("/srv/app/main.py");
        let shown = profile.with_line_numbers(LineNumbers::Current);
        assert_eq!(shown.locations, profile.locations);
        assert_eq!(shown.stacks, profile.stacks);
    }
}
