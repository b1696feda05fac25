//! Threads and tasks with similar names: those of requests differ only by numbers.

use std::{borrow::Cow, collections::HashMap};

use crate::{profile, text::printable};

/// Most threads or tasks with similar names that are named each.
const MAX_SIMILAR: usize = 8;

/// The [name](profile::thread_name) of a thread, printable.
pub(in crate::commands) fn thread_name(name: &str) -> Cow<'_, str> {
    printable(profile::thread_name(name))
}

/// The text with `#` for each number.
pub(in crate::commands) fn without_numbers(text: &str) -> String {
    let mut result = String::new();
    for letter in text.chars() {
        let is_digit = letter.is_ascii_digit();
        if !is_digit || !result.ends_with('#') {
            result.push(if is_digit { '#' } else { letter });
        }
    }
    result
}

/// Those with similar names together, in any order; with what all of them are called, if they are too many to be named
/// each.
pub(in crate::commands) fn similar<T>(
    all: impl Iterator<Item = T>,
    name: impl Fn(&T) -> &str,
) -> impl Iterator<Item = (Option<String>, Vec<T>)> {
    let mut groups = HashMap::<String, Vec<T>>::new();
    for one in all {
        let group = groups.entry(without_numbers(name(&one))).or_default();
        group.push(one);
    }
    groups.into_values().map(move |members| {
        let is_many = members.len() > MAX_SIMILAR;
        let common = is_many.then(|| common_name(members.iter().map(&name)));
        (common, members)
    })
}

/// That with its numbers, if it is the name of all, as of the program.
fn common_name<'a>(mut names: impl Iterator<Item = &'a str>) -> String {
    let first = names.next().unwrap_or_default();
    if names.all(|name| name == first) {
        first.to_owned()
    } else {
        without_numbers(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_by_numbers_are_similar() {
        assert_eq!(without_numbers("Thread-12 (f3)"), "Thread-# (f#)");
        assert_eq!(without_numbers("Thread-7 (f3)"), "Thread-# (f#)");
        assert_eq!(common_name(["a1", "a1"].into_iter()), "a1");
        assert_eq!(common_name(["a1", "a2"].into_iter()), "a#");
        assert_eq!(common_name([].into_iter()), "");
    }

    #[test]
    fn a_thread_without_a_name_is_called_so() {
        assert_eq!(thread_name(" "), "unnamed");
        assert_eq!(thread_name(" a\x1b "), "a\\u{1b}");
    }
}
