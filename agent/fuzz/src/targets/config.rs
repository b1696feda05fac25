//! The configuration: the first byte says whether it is a file or the value of a key.

use std::{fs::File, io::Write as _, os::fd::AsRawFd as _};

use agent::testing::config::{Config, KEYS, Sources};
use rustix::fs::{MemfdFlags, memfd_create};

pub(super) fn run(bytes: &[u8]) {
    let Some((kind, text)) = bytes.split_first() else {
        return;
    };
    let mut sources = Sources {
        folder: "/var/lib/agent/profiles".into(),
        ..Sources::default()
    };
    let mut file = None;
    if let Some(key) = KEYS.get(usize::from(*kind)) {
        let Ok(text) = str::from_utf8(text) else {
            return;
        };
        sources.flags.push((key.name, text.to_owned()));
    } else {
        let Ok(memory) = memfd_create("config", MemfdFlags::CLOEXEC) else {
            return;
        };
        let mut memory = File::from(memory);
        let _ = memory.write_all(text);
        sources.file = Some(format!("/proc/self/fd/{}", memory.as_raw_fd()).into());
        file = Some(memory);
    }
    if let Err(error) = Config::read(&sources) {
        let _ = error.to_string();
    }
    drop(file);
}
