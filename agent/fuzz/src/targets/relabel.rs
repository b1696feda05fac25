//! Rules of relabeling and selectors, on the labels of a made process. A run's bytes are the rules in
//! YAML, after the values of labels.

use std::collections::BTreeMap;

use agent::testing::targets::labels::{Selector, Subject, metadata::ProcessMetadata, relabel::Rules};

use crate::input::Input;

pub(super) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let values = [input.sized(), input.sized()].map(String::from_utf8_lossy);
    let Ok(text) = str::from_utf8(input.rest()) else {
        return;
    };
    let [name, address] = values;
    if let Ok(rules) = serde_yaml_ng::from_str::<Rules>(text) {
        let labels = BTreeMap::from([
            ("service_name".to_owned(), name.clone().into_owned()),
            ("__meta_process_comm".to_owned(), address.into_owned()),
        ]);
        if let Some(labels) = rules.apply(labels) {
            assert!(labels.keys().all(|name| !name.starts_with("__")));
        }
    }
    if let Ok(mut selector) = serde_yaml_ng::from_str::<Selector>(text) {
        let metadata = ProcessMetadata {
            pid: 7,
            comm: name.into_owned(),
            ..ProcessMetadata::default()
        };
        let _ = selector.depends_on_ids();
        let _ = selector.selects(&Subject {
            metadata: &metadata,
            container_info: None,
        });
    }
}
