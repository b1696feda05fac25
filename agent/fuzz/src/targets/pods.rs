//! Lists of pods in JSON, of the API server and of the kubelet.

use agent::testing::targets::labels::pods::PodList;

pub(super) fn run(bytes: &[u8]) {
    let mut list = PodList::default();
    let _ = list.read_page(bytes);
    let _ = list.read_page(bytes);
    assert!(list.count() <= bytes.len());
}
