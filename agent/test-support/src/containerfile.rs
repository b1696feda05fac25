//! The command to run the image, as documented in `deploy/Containerfile`.

use std::{collections::BTreeSet, fs, path::Path};

/// The options of `podman run`.
pub fn documented_options() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/Containerfile");
    let text = fs::read_to_string(path).unwrap();
    let (_, command) = text.split_once("podman run ").unwrap();
    let words = command
        .split_whitespace()
        .filter(|word| !["#", "\\"].contains(word));
    words
        .take_while(|word| word.starts_with("--"))
        .map(str::to_owned)
        .collect()
}

/// The capabilities among them, without `CAP_`.
pub fn documented_capabilities() -> BTreeSet<String> {
    let options = documented_options();
    let lists = options
        .iter()
        .filter_map(|option| option.strip_prefix("--cap-add="));
    lists
        .flat_map(|list| list.split(','))
        .map(str::to_owned)
        .collect()
}
