//! What a workload's source says about its stacks.
//!
//! A comment `# line: NAME` at the end of a line gives the line a name. What else is expected stands
//! in the workload's first text, in lines that begin with a word and a colon.

use std::{fs, path::PathBuf};

use xtask::interpreters::Interpreter;

use super::{folded::Frame, target::workload_path};

/// From this minor version on code objects know their qualified name.
const FIRST_WITH_QUALIFIED_NAMES: u32 = 11;

/// From this minor version on comprehensions have no frame of their own, but for generators.
const FIRST_WITHOUT_COMPREHENSIONS: u32 = 12;

/// The source of a workload.
pub(crate) struct Source {
    path: PathBuf,
    text: String,
}

impl Source {
    /// That of this workload.
    pub(crate) fn of(workload: &str) -> Self {
        let path = workload_path(workload);
        let text = fs::read_to_string(&path).unwrap();
        Self { path, text }
    }

    /// Its file, as the interpreter names it.
    pub(crate) fn file(&self) -> &str {
        self.path.to_str().unwrap()
    }

    /// The line with this name.
    pub(crate) fn line(&self, name: &str) -> u32 {
        let comment = format!("  # line: {name}");
        let mut found = (1..)
            .zip(self.text.lines())
            .filter(|(_, line)| line.ends_with(&comment));
        let line = found.next();
        assert!(found.next().is_none(), "two lines are called {name}");
        line.unwrap_or_else(|| panic!("no line is called {name}")).0
    }

    /// What stands behind this word and a colon.
    pub(crate) fn said<'a>(&'a self, word: &str) -> impl Iterator<Item = &'a str> {
        let start = format!("{word}: ");
        self.text
            .lines()
            .filter_map(move |line| line.strip_prefix(&start))
    }

    /// The stacks that are expected with an interpreter, root first.
    pub(crate) fn stacks(&self, interpreter: &Interpreter) -> Vec<Vec<Frame>> {
        self.said("stack")
            .map(|stack| {
                stack
                    .split(' ')
                    .flat_map(|frame| self.frames(frame, interpreter))
                    .collect()
            })
            .collect()
    }

    /// `[-]function@line[*times]`.
    fn frames(&self, text: &str, interpreter: &Interpreter) -> Vec<Frame> {
        let (text, is_comprehension) = text
            .strip_prefix('-')
            .map_or((text, false), |text| (text, true));
        let (text, times) = text.split_once('*').unwrap_or((text, "1"));
        let times = if is_comprehension && interpreter.minor >= FIRST_WITHOUT_COMPREHENSIONS {
            0
        } else {
            times.parse().unwrap()
        };
        let (function, place) = text.split_once('@').unwrap();
        let name = function_name(function, interpreter);
        let frame = match place.rsplit_once(':') {
            Some((file, line)) => Frame::new(name, file, line.parse().unwrap()),
            None => Frame::new(name, self.file(), self.line(place)),
        };
        vec![frame; times]
    }
}

/// What an interpreter calls the function with this qualified name.
pub(crate) fn function_name<'a>(qualified: &'a str, interpreter: &Interpreter) -> &'a str {
    match qualified.rsplit_once('.') {
        Some((_, name)) if interpreter.minor < FIRST_WITH_QUALIFIED_NAMES => name,
        _ => qualified,
    }
}
