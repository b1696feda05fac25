//! A perf map, which grows once.

use std::{fs::File, io::Write as _};

use agent::fuzzing::{process::RegularFile, symbolize::PerfMap};
use rustix::fs::{MemfdFlags, memfd_create};

use crate::input::Input;

pub(super) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let first = input.sized();
    let Ok(memory) = memfd_create("perf-map", MemfdFlags::CLOEXEC) else {
        return;
    };
    let mut file = File::from(memory);
    let Ok(map_file) = file.try_clone().map(RegularFile::from) else {
        return;
    };
    let mut map = PerfMap::default();
    for text in [first, input.rest()] {
        let _ = file.write_all(text);
        let _ = map.update(&map_file);
        for address in [0, 0x1000, 0x1010, 0x7f00_0000_1000, u64::MAX] {
            let _ = map.find(address);
        }
    }
}
