//! Large programs that the bench of a host profiles, made once per machine in the cache.
//!
//! Invariant: the name in the cache has a hash of what a program is made from, so that an edit makes
//! a new one.

mod cpp;
mod go;

pub use cpp::program as cpp_program;
pub use go::{Program as GoProgram, programs as go_programs};

use crate::cache::Shelf;

/// Where they are in the cache.
const SHELF: Shelf = Shelf("programs");

/// A hash of all parts (FNV-1a), as a suffix of a name.
fn hash<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let bytes = parts
        .into_iter()
        // A byte that no text has keeps parts apart.
        .flat_map(|part| part.bytes().chain([0xff]));
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_sources_have_another_hash() {
        assert_eq!(hash([]), "cbf29ce484222325");
        assert_ne!(hash(["a", "bc"]), hash(["ab", "c"]));
        assert_eq!(hash(["a"]), hash(["a"]));
    }
}
