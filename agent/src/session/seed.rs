//! The seed of the hashes that the BPF programs compute.

use rustix::rand::{GetRandomFlags, getrandom};

/// A seed that a sampled process cannot predict.
pub(super) fn random_seed() -> u64 {
    let mut seed = [0_u8; 8];
    // Without randomness the seed is 0: hashes are as good, but can be predicted.
    let _ = getrandom(&mut seed, GetRandomFlags::empty());
    u64::from_ne_bytes(seed)
}
