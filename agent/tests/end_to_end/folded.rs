//! Parser of folded stacks.
//!
//! Most tests are about Python: they compare the Python frames of complete stacks, which also
//! checks the positions of these among the native frames.

use std::{collections::BTreeMap, fmt};

/// A frame of a folded stack.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Frame {
    /// Function, marker or thread.
    pub(crate) name: String,
    /// Its file, a thread's id, or empty for a marker.
    pub(crate) place: String,
    /// Its line.
    pub(crate) line: Option<u32>,
}

impl Frame {
    /// A frame of a function.
    pub(crate) fn new(name: &str, file: &str, line: u32) -> Self {
        Self {
            name: name.to_owned(),
            place: file.to_owned(),
            line: Some(line),
        }
    }

    /// Parses `name (file:line)`, `name (file)`, `thread (id)` or `[marker]`.
    fn parse(text: &str) -> Self {
        let in_parentheses = text
            .strip_suffix(')')
            .and_then(|text| text.rsplit_once(" ("));
        let (name, place) = in_parentheses.unwrap_or((text, ""));

        let with_line = place
            .rsplit_once(':')
            .and_then(|(file, line)| Some((file, line.parse().ok()?)));
        let (file, line) = with_line.map_or((place, None), |(file, line)| (file, Some(line)));
        Self {
            name: name.to_owned(),
            place: file.to_owned(),
            line,
        }
    }
}

impl Frame {
    /// Whether it is a Python frame, or a marker in place of some.
    pub(crate) fn is_python(&self) -> bool {
        if self.place.is_empty() {
            let is_marker = self.name.starts_with('[') && self.name.ends_with(']');
            return is_marker && !self.name.starts_with(NO_NATIVE) && self.name != GC;
        }
        let is_source = self
            .place
            .rsplit_once('.')
            .is_some_and(|(_, ending)| ending == "py");
        self.line.is_some() || is_source || self.place.starts_with('<')
    }

    /// Whether it is a frame of the kernel.
    pub(crate) fn is_kernel(&self) -> bool {
        self.name.ends_with("_[k]")
    }

    /// Whether it is a native frame of the process.
    pub(crate) fn is_native(&self) -> bool {
        !self.is_python() && !self.is_kernel() && !self.name.starts_with(NO_NATIVE)
    }
}

/// Prefix of the marker for unknown native frames.
pub(crate) const NO_NATIVE: &str = "[native frames unknown";

/// The marker of a thread that collects garbage, which it does in any function: most tests leave it out.
pub(crate) const GC: &str = "[gc]";

/// The marker for a stack without Python frames.
pub(crate) const NO_PYTHON: &str = "[no Python]";

impl fmt::Display for Frame {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, place, line } = self;
        match line {
            Some(line) => write!(formatter, "{name} ({place}:{line})"),
            None if place.is_empty() => formatter.write_str(name),
            None => write!(formatter, "{name} ({place})"),
        }
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

/// Parses frames separated by semicolons.
pub(crate) fn stack(text: &str) -> Vec<Frame> {
    text.split(';').map(Frame::parse).collect()
}

/// Formats frames separated by semicolons.
pub(crate) fn text(stack: &[Frame]) -> String {
    let frames: Vec<_> = stack.iter().map(Frame::to_string).collect();
    frames.join(";")
}

/// The names of a stack's functions.
pub(crate) fn names(stack: &[Frame]) -> Vec<&str> {
    stack.iter().map(|frame| &*frame.name).collect()
}

/// A profile: distinct stacks, root first, with their sample counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Folded(pub(crate) BTreeMap<Vec<Frame>, u64>);

impl Folded {
    /// Parses the agent's output; retains only the Python frames of each stack.
    pub(crate) fn parse(text: &str) -> Self {
        Self::parse_whole(text).python()
    }

    /// The same stacks without native and kernel frames; leading processes and threads remain.
    pub(crate) fn python(&self) -> Self {
        let mut stacks = BTreeMap::<_, u64>::new();
        for (stack, count) in &self.0 {
            let is_prefix =
                |frame: &&Frame| frame.line.is_none() && frame.place.parse::<u32>().is_ok();
            let front = stack.iter().take_while(is_prefix).count();
            let mut frames: Vec<_> = stack[..front].to_vec();
            frames.extend(
                stack[front..]
                    .iter()
                    .filter(|frame| frame.is_python())
                    .cloned(),
            );
            if frames.len() == front {
                frames.push(Frame::parse(NO_PYTHON));
            }
            *stacks.entry(frames).or_default() += count;
        }
        Self(stacks)
    }

    /// Parses the agent's output with all frames but [`GC`]; every line must be a stack and a count.
    pub(crate) fn parse_whole(text: &str) -> Self {
        let mut stacks = BTreeMap::<_, u64>::new();
        for (mut stack, count) in Self::parse_all(text).0 {
            if stack.last().is_some_and(|frame| frame.name == GC) {
                stack.pop();
            }
            *stacks.entry(stack).or_default() += count;
        }
        Self(stacks)
    }

    /// The same with that.
    pub(crate) fn parse_all(text: &str) -> Self {
        let mut stacks = BTreeMap::new();
        for line in text.lines() {
            let (frames, count) = line.rsplit_once(' ').unwrap();
            let count: u64 = count.parse().unwrap_or_else(|_| panic!("no count: {line}"));
            assert_ne!(count, 0, "{line}");
            let previous = stacks.insert(stack(frames), count);
            assert_eq!(previous, None, "duplicate stack: {line}");
        }
        Self(stacks)
    }

    /// Adds the samples of another profile.
    pub(crate) fn add(&mut self, other: Self) {
        for (stack, count) in other.0 {
            *self.0.entry(stack).or_default() += count;
        }
    }

    /// The total number of samples.
    pub(crate) fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// Its stacks and their sample counts.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[Frame], u64)> {
        self.0.iter().map(|(stack, count)| (&**stack, *count))
    }

    /// The number of samples with a matching stack.
    pub(crate) fn count(&self, mut matches: impl FnMut(&[Frame]) -> bool) -> u64 {
        self.0
            .iter()
            .filter(|(stack, _)| matches(stack))
            .map(|(_, count)| count)
            .sum()
    }

    /// The matching stacks with their sample counts, one per line.
    pub(crate) fn show(&self, mut matches: impl FnMut(&[Frame]) -> bool) -> String {
        let stacks = self.0.iter().filter(|(stack, _)| matches(stack));
        let lines: Vec<_> = stacks
            .map(|(stack, count)| format!("{} {count}", text(stack)))
            .collect();
        lines.join("\n")
    }
}

/// Whether the stack has a marker for missing frames.
pub(crate) fn is_marked(stack: &[Frame]) -> bool {
    stack.iter().any(|frame| frame.name.starts_with('['))
}
