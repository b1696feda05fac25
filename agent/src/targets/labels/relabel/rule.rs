//! One relabeling rule.

use std::collections::BTreeMap;

use md5::{Digest as _, Md5};
use regex::Regex;
use serde::Deserialize;

use super::read;
use crate::targets::labels::{
    names::is_label_name,
    set::{MAX_VALUE, truncate},
};

/// A valid rule.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "read::Written")]
pub struct Rule {
    /// The labels whose values are joined.
    pub(super) source_labels: Vec<String>,
    /// The separator of the joined values.
    pub(super) separator: String,
    /// The action.
    pub(super) action: Action,
}

/// The action of a rule.
#[derive(Clone, Debug)]
pub(super) enum Action {
    Replace {
        regex: Regex,
        target: String,
        replacement: String,
    },
    Keep(Regex),
    Drop(Regex),
    KeepEqual(String),
    DropEqual(String),
    HashMod {
        target: String,
        modulus: u64,
    },
    LabelMap {
        regex: Regex,
        replacement: String,
    },
    LabelDrop(Regex),
    LabelKeep(Regex),
    Lowercase(String),
    Uppercase(String),
}

impl Rule {
    /// Applies the rule; returns whether the labels are kept.
    pub(super) fn apply(&self, labels: &mut BTreeMap<String, String>) -> bool {
        let source = self.source(labels);
        match &self.action {
            Action::Keep(regex) => return regex.is_match(&source),
            Action::Drop(regex) => return !regex.is_match(&source),
            Action::KeepEqual(target) => return value(labels, target) == source,
            Action::DropEqual(target) => return value(labels, target) != source,
            Action::Replace {
                regex,
                target,
                replacement,
            } => {
                if let Some(groups) = regex.captures(&source) {
                    let (mut name, mut value) = (String::new(), String::new());
                    groups.expand(target, &mut name);
                    groups.expand(replacement, &mut value);
                    if is_label_name(&name) {
                        set(labels, name, value);
                    }
                }
            }
            Action::Lowercase(target) => set(labels, target.clone(), lowercase(&source)),
            Action::Uppercase(target) => set(labels, target.clone(), uppercase(&source)),
            Action::HashMod { target, modulus } => {
                let hash = hash(&source);
                // Validation has checked that the modulus is not 0.
                let remainder = hash.checked_rem(*modulus).unwrap_or_default();
                set(labels, target.clone(), remainder.to_string());
            }
            Action::LabelMap { regex, replacement } => {
                let mut copies = Vec::new();
                for (name, value) in &*labels {
                    if let Some(groups) = regex.captures(name) {
                        let mut copy = String::new();
                        groups.expand(replacement, &mut copy);
                        copies.push((copy, value.clone()));
                    }
                }
                for (name, value) in copies {
                    if is_label_name(&name) {
                        set(labels, name, value);
                    }
                }
            }
            Action::LabelDrop(regex) => labels.retain(|name, _| !regex.is_match(name)),
            Action::LabelKeep(regex) => labels.retain(|name, _| regex.is_match(name)),
        }
        true
    }

    /// The joined values; a missing label is empty.
    fn source(&self, labels: &BTreeMap<String, String>) -> String {
        let values: Vec<&str> = self
            .source_labels
            .iter()
            .map(|name| value(labels, name))
            .collect();
        values.join(&self.separator)
    }
}

fn value<'a>(labels: &'a BTreeMap<String, String>, name: &str) -> &'a str {
    labels.get(name).map_or("", String::as_str)
}

/// Sets a label; an empty value removes it.
fn set(labels: &mut BTreeMap<String, String>, name: String, mut value: String) {
    truncate(&mut value, MAX_VALUE);
    if value.is_empty() {
        labels.remove(&name);
    } else {
        labels.insert(name, value);
    }
}

/// The second half of the MD5 sum, so that `hashmod` gives the results of Prometheus.
fn hash(text: &str) -> u64 {
    let sum: [u8; 16] = Md5::digest(text).into();
    let (_, half) = sum.split_at(8);
    half.iter()
        .fold(0, |hash, &byte| hash << 8 | u64::from(byte))
}

/// Maps each character by itself to one character, as Go does.
fn lowercase(text: &str) -> String {
    text.chars()
        .filter_map(|letter| letter.to_lowercase().next())
        .collect()
}

fn uppercase(text: &str) -> String {
    let one = |letter: char| {
        let mut upper = letter.to_uppercase();
        match (upper.next(), upper.next()) {
            (Some(only), None) => only,
            _ => letter,
        }
    };
    text.chars().map(one).collect()
}
