//! Patterns of Python functions at the leaf of a stack.

use agent_common::record::WaitReason;

use self::Pattern::{Any, Many, One};

/// A Python function of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct PythonFunction<'a> {
    /// Its name without its class.
    name: &'a str,
    file: &'a str,
}

impl<'a> PythonFunction<'a> {
    pub(in super::super) fn new(qualified_name: &'a str, file: &'a str) -> Self {
        let name = qualified_name.rsplit('.').next();
        Self {
            name: name.unwrap_or(qualified_name),
            file,
        }
    }
}

/// Name of a function, or `*`, and the last components of its file; with `/` at the end a folder that
/// contains the file.
pub(super) type Known = (&'static str, &'static str);

/// Functions of a rule.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pattern {
    /// One of these.
    One(&'static [Known]),
    /// Any number of these, also none.
    Many(&'static [Known]),
    /// A function of the program.
    Any,
}

/// The functions at the leaf of a thread that waits for work, and what it waits for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    pub(super) waits: &'static [WaitReason],
    pub(super) functions: &'static [Pattern],
}

impl Rule {
    /// Whether the functions at the leaf, which comes first, are those of the rule.
    pub(super) fn matches(&self, functions: &[PythonFunction<'_>]) -> bool {
        let mut rest = functions;
        self.functions.iter().all(|pattern| {
            if let Many(known) = pattern {
                let other = rest.iter().position(|function| !is_one_of(function, known));
                rest = rest.get(other.unwrap_or(rest.len())..).unwrap_or_default();
                return true;
            }
            let Some((function, after)) = rest.split_first() else {
                return false;
            };
            rest = after;
            match pattern {
                One(known) => is_one_of(function, known),
                Any | Many(_) => true,
            }
        })
    }
}

fn is_one_of(function: &PythonFunction<'_>, known: &[Known]) -> bool {
    known.iter().any(|(name, file)| {
        let is_name = *name == "*" || *name == function.name;
        is_name && is_in(function.file, file)
    })
}

/// Whether a file has these last components, or is in this folder.
pub(super) fn is_in(file: &str, known: &str) -> bool {
    if known == "*" {
        return true;
    }
    if known.ends_with('/') {
        let mut places = file.match_indices(known);
        return places.any(|(at, _)| at == 0 || file[..at].ends_with('/'));
    }
    let folder = file.strip_suffix(known);
    folder.is_some_and(|folder| folder.is_empty() || folder.ends_with('/'))
}
