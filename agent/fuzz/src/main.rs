//! Coverage-guided fuzzing of what parses bytes from elsewhere; see `agent/docs/contributing.md`.
//!
//! One program has all targets, so that the agent is compiled and linked once. `AGENT_FUZZ_TARGET` is
//! the name of the one to run; all other arguments are libFuzzer's.
//!
//! Invariants: a target drives what the agent runs, with the agent's limits; the same bytes give the
//! same run.

#![cfg_attr(not(test), no_main)]
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a panic is what libFuzzer finds"
)]

mod image;
mod input;
mod memory;
mod targets;

use std::{env, sync::OnceLock};

use targets::{TARGETS, Target};

/// Environment variable with the name of a target.
const VARIABLE: &str = "AGENT_FUZZ_TARGET";

static TARGET: OnceLock<Target> = OnceLock::new();

libfuzzer_sys::fuzz_target!(
    init: {
        let name = env::var(VARIABLE).unwrap_or_default();
        let found = TARGETS.iter().find(|(target, _)| *target == name);
        let Some((_, target)) = found else {
            let names: Vec<_> = TARGETS.iter().map(|(name, _)| *name).collect();
            panic!("{VARIABLE} must be one of {}", names.join(", "));
        };
        let _ = TARGET.set(*target);
    },
    |bytes: &[u8]| {
        if let Some(target) = TARGET.get() {
            target(bytes);
        }
    }
);
