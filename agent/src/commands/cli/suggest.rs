//! What a word on the command line could have meant.

use clap::{
    Command, Error,
    error::{ContextKind, ContextValue, ErrorKind},
};

/// Least similarity of a command.
const SIMILAR: f64 = 0.6;

/// Adds the command that was meant to the error about a word that is none, or how to start a program.
///
/// `first` is the first argument: behind a command a word is another matter.
pub(super) fn with_command(mut error: Error, commands: &Command, first: Option<&str>) -> Error {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    let names = || commands.get_subcommands().map(Command::get_name);
    let is_command = first.is_some_and(|first| names().any(|name| name == first));
    if error.kind() != ErrorKind::UnknownArgument || word.starts_with('-') || is_command {
        return error;
    }
    let rated = names().map(|name| (strsim::normalized_damerau_levenshtein(word, name), name));
    let (similarity, nearest) = rated
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .unwrap_or_default();
    if similarity >= SIMILAR {
        let nearest = ContextValue::Strings(vec![nearest.to_owned()]);
        error.insert(ContextKind::SuggestedSubcommand, nearest);
    } else {
        let tip = "a program to start comes after '--'";
        let tip = ContextValue::StyledStrs(vec![tip.into()]);
        error.insert(ContextKind::Suggested, tip);
    }
    error
}
