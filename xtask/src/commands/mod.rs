//! The subcommands; the library has what they share with the agent's tests.

pub(crate) mod bench;
pub(crate) mod build;
pub(crate) mod ci;
pub(crate) mod demo;
pub(crate) mod dependencies;
pub(crate) mod fuzz;
pub(crate) mod lint;
mod observe;
pub(crate) mod record_fixtures;
mod results;
pub(crate) mod setup;
pub(crate) mod soak;
pub(crate) mod test;
pub(crate) mod vm;

pub(crate) use results::{NamedCheck, Results};
