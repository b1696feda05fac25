//! The file with the users of the host.

use std::{fs::File, io::Read as _};

/// Lines `NAME:PASSWORD:UID:GID:GECOS:HOME:SHELL`.
pub(super) const FILE: &str = "/etc/passwd";

/// Most bytes of it that are read.
const MAX_BYTES: u64 = 16 << 20;

/// Its content; empty without the file, so that there are only ids.
pub(super) fn read() -> Vec<u8> {
    let mut users = Vec::new();
    let _ = File::open(FILE).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut users));
    users
}
