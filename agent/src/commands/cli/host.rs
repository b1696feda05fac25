//! The command line of the agent of a host: a flag for each key of the configuration.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};

use super::HostOptions;
use crate::config::KEYS;

/// The flags.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostFlags(pub(super) HostOptions);

impl Args for HostFlags {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new("config")
            .short('c')
            .long("config")
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .help("Configuration; each of its keys is also a flag and a variable AGENT_…");
        let check = Arg::new("check_config")
            .long("check-config")
            .action(ArgAction::SetTrue)
            .help("Only say whether the configuration makes sense");
        let keys = KEYS.iter().map(|key| {
            Arg::new(key.name)
                .long(key.flag())
                .value_name("VALUE")
                .allow_hyphen_values(true)
                .help(key.about.trim())
        });
        command.arg(config).arg(check).args(keys)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for HostFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let keys = KEYS.iter().filter_map(|key| {
            let value = matches.get_one::<String>(key.name)?;
            Some((key.name, value.clone()))
        });
        Ok(Self(HostOptions {
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
