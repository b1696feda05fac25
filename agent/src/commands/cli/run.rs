//! Flags of `agent run`: one for each key of the configuration.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};

use super::options::RunOptions;
use crate::config::{KEYS, Key, KeyKind};

/// The flags.
#[derive(Clone, Debug, Default)]
pub(super) struct RunFlags(pub(super) RunOptions);

/// The id of the flag that turns a switch off.
fn negative(key: &Key) -> String {
    format!("no_{}", key.name)
}

/// A value, or a switch with its opposite: of both the last one counts, and only the one that
/// differs from the default is in the help.
fn arguments(key: &Key) -> Vec<Arg> {
    let argument = Arg::new(key.name)
        .long(key.flag())
        .help(key.about.trim())
        .help_heading(key.group);
    match key.kind {
        KeyKind::Value(name) => vec![argument.value_name(name).allow_hyphen_values(true)],
        KeyKind::Switch { default } => {
            let off = Arg::new(negative(key))
                .long(format!("no-{}", key.flag()))
                .help(key.about.trim())
                .help_heading(key.group)
                .action(ArgAction::SetTrue)
                .overrides_with(key.name)
                .hide(!default);
            let on = argument
                .action(ArgAction::SetTrue)
                .overrides_with(negative(key))
                .hide(default);
            vec![on, off]
        }
    }
}

/// The value of a key, if its flag is there.
fn value(key: &Key, matches: &ArgMatches) -> Option<String> {
    match key.kind {
        KeyKind::Value(_) => matches.get_one::<String>(key.name).cloned(),
        KeyKind::Switch { .. } if matches.get_flag(key.name) => Some("true".to_owned()),
        KeyKind::Switch { .. } if matches.get_flag(&negative(key)) => Some("false".to_owned()),
        KeyKind::Switch { .. } => None,
    }
}

impl Args for RunFlags {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new("config")
            .short('c')
            .long("config")
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .help("Configuration file, in YAML");
        let check = Arg::new("check_config")
            .long("check-config")
            .action(ArgAction::SetTrue)
            .help("Validate the configuration and exit");
        let keys = KEYS.iter().flat_map(arguments);
        command.arg(config).arg(check).args(keys)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for RunFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let keys = KEYS
            .iter()
            .filter_map(|key| Some((key.name, value(key, matches)?)));
        Ok(Self(RunOptions {
            config: matches.get_one::<PathBuf>("config").cloned(),
            check_config: matches.get_flag("check_config"),
            keys: keys.collect(),
        }))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
