//! Texts below `/proc`: the first byte says which.

use std::path::Path;

use agent::{
    fuzzing::{
        process::{CommandLine, find_variables, is_kernel_thread, numbers, parent, parse_mounts},
        symbolize::KernelSymbols,
    },
    testing::{process::maps, targets::labels::attributes::Attributes},
};

pub(super) fn run(bytes: &[u8]) {
    let Some((kind, text)) = bytes.split_first() else {
        return;
    };
    match kind % 7 {
        0 => {
            for mapping in maps::parse(text) {
                assert!(mapping.start < mapping.end);
            }
        }
        1 => {
            let _ = ["NSpid:", "Uid:", "PPid:"].map(|key| numbers(text, key));
        }
        2 => {
            let _ = (is_kernel_thread(text), parent(text));
        }
        3 => {
            for mount in parse_mounts(text) {
                let _ = (mount.is_fuse(), mount.layers());
            }
        }
        4 => {
            let names = ["OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"];
            if let Ok([name, list]) = find_variables(text, names) {
                let _ = Attributes::new(name.as_deref(), list.as_deref());
            }
        }
        5 => {
            let line = CommandLine::new(text.to_vec());
            let _ = line.to_text();
            for executable in ["/usr/bin/python3.12", "/bin/sh", "/usr/bin/node"] {
                let _ = line.program(Path::new(executable));
            }
        }
        _ => {
            if let Ok(symbols) = KernelSymbols::parse(text) {
                for address in [0, u64::MAX, 0xffff_ffff_8100_0000, 0xffff_ffff_8100_0010] {
                    let _ = symbols.find(address);
                }
            }
        }
    }
}
