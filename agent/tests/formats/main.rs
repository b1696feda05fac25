//! What programs read in the formats that the agent writes for them.
//!
//! Invariant: what is expected comes from another format, or from the profile itself.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod callgrind;
mod chrome;
mod cpuprofile;
mod firefox;
mod perf_script;
mod speedscope;

use agent::testing::{
    formats::{EncodeOptions, Format, Internals, encode},
    profile::{
        Profile,
        fixtures::{example_processes, example_profile, timed},
    },
};

/// A profile of one process, and one of several.
fn profiles() -> [Profile; 2] {
    [example_profile, example_processes].map(|make| make("/srv/app/main.py"))
}

/// The same with their samples in time.
fn timed_profiles() -> [Profile; 2] {
    profiles().map(timed)
}

/// A profile in a format, with all frames and with threads.
fn encoded(profile: &Profile, format: Format) -> Vec<u8> {
    let options = EncodeOptions {
        threads: true,
        internals: Internals::Shown,
        ..EncodeOptions::default()
    };
    let mut bytes = Vec::new();
    encode(profile, format, options, &mut bytes).unwrap();
    bytes
}
