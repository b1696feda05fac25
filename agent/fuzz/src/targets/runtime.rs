//! Lists of pods and containers, of a container runtime.

use agent::testing::targets::kubernetes;
use bytes::Bytes;

use crate::input::Input;

pub(super) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let sandboxes = Bytes::copy_from_slice(input.sized());
    let containers = Bytes::copy_from_slice(input.rest());
    if let Ok(list) = kubernetes::read_runtime(&sandboxes, &containers) {
        assert!(list.count() <= sandboxes.len());
    }
}
