//! The expected stacks of a workload, as declared in its source.
//!
//! A comment `# line: NAME` at the end of a line gives the line a name. Other expectations are in
//! the workload's docstring, in lines of the form `key: value`. Coroutines are in a separate file,
//! [`COROUTINES`], for the interpreters that can parse it.

use std::{collections::BTreeSet, fs};

use xtask::interpreters::Interpreter;

use super::{
    abilities::{has_coroutines, has_qualified_names, inlines},
    folded::Frame,
    target::workload_path,
};

/// The module that workloads import if the interpreter can parse it.
const COROUTINES: &str = "coroutines";

/// The source of a workload.
pub(crate) struct Source {
    workload: File,
    coroutines: File,
}

/// A file, as the interpreter names it.
struct File {
    path: String,
    text: String,
}

impl Source {
    /// Reads the source of this workload.
    pub(crate) fn of(workload: &str) -> Self {
        Self {
            workload: File::of(workload),
            coroutines: File::of(COROUTINES),
        }
    }

    /// Whether this is a file of the source.
    pub(crate) fn has(&self, file: &str) -> bool {
        self.files().iter().any(|own| own.path == file)
    }

    /// The file and the line with this name.
    pub(crate) fn line(&self, name: &str) -> (&str, u32) {
        let comment = format!("  # line: {name}");
        let lines = self.files().into_iter().flat_map(|file| {
            let lines = (1..).zip(file.text.lines());
            lines.map(|(number, line)| (&*file.path, number, line))
        });
        let mut found = lines.filter(|(_, _, line)| line.ends_with(&comment));
        let line = found.next();
        assert!(found.next().is_none(), "two lines are called {name}");
        let (file, number, _) = line.unwrap_or_else(|| panic!("no line is called {name}"));
        (file, number)
    }

    /// The calls between functions of the workload: the caller, the line of the call, and the function, as this
    /// interpreter names them.
    pub(crate) fn calls(&self, interpreter: &Interpreter) -> BTreeSet<(&str, u32, &str)> {
        let calls = self.values("call").map(|call| {
            let (site, function) = call.split_once(' ').unwrap();
            let (caller, mark) = site.split_once('@').unwrap();
            let name = |qualified| function_name(qualified, interpreter);
            (name(caller), self.line(mark).1, name(function))
        });
        calls.collect()
    }

    fn files(&self) -> [&File; 2] {
        [&self.workload, &self.coroutines]
    }

    /// The values of the lines `key: value` with this key.
    pub(crate) fn values<'a>(&'a self, key: &str) -> impl Iterator<Item = &'a str> {
        let start = format!("{key}: ");
        let lines = self.workload.text.lines();
        lines.filter_map(move |line| line.strip_prefix(&start))
    }

    /// The stacks that are expected with an interpreter, root first.
    pub(crate) fn stacks(&self, interpreter: &Interpreter) -> Vec<Vec<Frame>> {
        let of_coroutines = self
            .values("stack with coroutines")
            .filter(|_| has_coroutines(interpreter));
        self.values("stack")
            .chain(of_coroutines)
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
        let (function, place) = text.split_once('@').unwrap();
        let times = if is_comprehension && inlines(interpreter, function) {
            0
        } else {
            times.parse().unwrap()
        };
        let name = function_name(function, interpreter);
        let (file, line) = match place.rsplit_once(':') {
            Some((file, line)) => (file, line.parse().unwrap()),
            None => self.line(place),
        };
        vec![Frame::new(name, file, line); times]
    }
}

impl File {
    fn of(workload: &str) -> Self {
        let path = workload_path(workload);
        Self {
            text: fs::read_to_string(&path).unwrap(),
            path: path.into_os_string().into_string().unwrap(),
        }
    }
}

/// The name that an interpreter has for the function with this qualified name.
pub(crate) fn function_name<'a>(qualified: &'a str, interpreter: &Interpreter) -> &'a str {
    match qualified.rsplit_once('.') {
        Some((_, name)) if !has_qualified_names(interpreter) => name,
        _ => qualified,
    }
}
