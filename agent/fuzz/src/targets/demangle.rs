//! Names of symbols: Rust's, C++'s and Go's.

use agent::fuzzing::symbolize::{demangle, go_name, stub_name};

/// Most bytes of a name; see `symbolize::shorten`.
const MOST: usize = 1024;

pub(super) fn run(name: &[u8]) {
    for shown in [demangle(name), go_name(name)] {
        assert!(shown.len() <= MOST && !shown.chars().any(char::is_control));
    }
    assert!(stub_name(name).len() <= MOST + "@plt".len());
}
