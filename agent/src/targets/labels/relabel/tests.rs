//! Each action, as documented by Prometheus.

use super::Rules;
use crate::targets::labels::{names::is_label_name, set::MAX_VALUE};
use proptest::prelude::{any, prop_assert, proptest};
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn rules(rules: &Value) -> Rules {
    serde_json::from_value(rules.clone()).unwrap_or_else(|error| panic!("{rules}: {error}"))
}

fn set(labels: &[(&str, &str)]) -> BTreeMap<String, String> {
    labels
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

/// Applies rules to the labels `a=foo`, `b=bar`, `c=baz` and a hidden one.
#[track_caller]
fn check(written: &Value, expected: Option<&[(&str, &str)]>) {
    let labels = set(&[("a", "foo"), ("b", "bar"), ("c", "baz"), ("__meta_x", "1")]);
    let found = rules(written).apply(labels);
    assert_eq!(found, expected.map(set), "{written}");
}

const UNCHANGED: Option<&[(&str, &str)]> = Some(&[("a", "foo"), ("b", "bar"), ("c", "baz")]);

#[test]
fn without_rules_only_hidden_labels_are_removed() {
    check(&json!([]), UNCHANGED);
}

#[test]
fn replace_matches_the_full_joined_value() {
    let rule = json!([{"source_labels": ["a", "b"], "regex": "f(.*);(.*)r", "target_label": "a",
        "replacement": "b${1}${2}m"}]);
    check(&rule, Some(&[("a", "boobam"), ("b", "bar"), ("c", "baz")]));
    // Anchored at both ends.
    let rule =
        json!([{"source_labels": ["a"], "regex": "o", "target_label": "d", "replacement": "x"}]);
    check(&rule, UNCHANGED);
    // All of the alternatives are anchored.
    let rule =
        json!([{"source_labels": ["a"], "regex": "f|o", "target_label": "d", "replacement": "x"}]);
    check(&rule, UNCHANGED);
    let rule = json!([{"source_labels": ["a", "__meta_x"], "separator": "@", "target_label": "d"}]);
    check(
        &rule,
        Some(&[("a", "foo"), ("b", "bar"), ("c", "baz"), ("d", "foo@1")]),
    );
    let rule = json!([{"source_labels": ["b"], "regex": "(?P<first>b).*", "target_label": "d",
        "replacement": "${first}-$$-$first"}]);
    check(
        &rule,
        Some(&[("a", "foo"), ("b", "bar"), ("c", "baz"), ("d", "b-$-b")]),
    );
    // A missing label is empty, and still matches.
    let rule = json!([{"source_labels": ["none"], "target_label": "d", "replacement": "x"}]);
    check(
        &rule,
        Some(&[("a", "foo"), ("b", "bar"), ("c", "baz"), ("d", "x")]),
    );
    let rule = json!([{"target_label": "d", "replacement": true}]);
    check(
        &rule,
        Some(&[("a", "foo"), ("b", "bar"), ("c", "baz"), ("d", "true")]),
    );
}

#[test]
fn replace_with_an_empty_value_deletes() {
    let rule = json!([{"target_label": "a", "replacement": ""}]);
    check(&rule, Some(&[("b", "bar"), ("c", "baz")]));
    let rule = json!([{"source_labels": ["none"], "target_label": "a"}]);
    check(&rule, Some(&[("b", "bar"), ("c", "baz")]));
    // A group that does not exist is empty: `$1x` is the group of the name `1x`.
    let rule = json!([{"source_labels": ["a"], "target_label": "a", "replacement": "$1x"}]);
    check(&rule, Some(&[("b", "bar"), ("c", "baz")]));
}

#[test]
fn replace_expands_groups_in_the_target() {
    let rule = json!([{"source_labels": ["a"], "regex": "(f).*", "target_label": "x_${1}_$1",
        "replacement": "y"}]);
    check(
        &rule,
        Some(&[("a", "foo"), ("b", "bar"), ("c", "baz"), ("x_f_f", "y")]),
    );
    // An invalid name leaves the labels unchanged.
    let rule = json!([{"source_labels": ["a", "b"], "regex": "(.*)", "target_label": "${1}",
        "replacement": "y"}]);
    check(&rule, UNCHANGED);
}

#[test]
fn a_dot_matches_a_newline() {
    let labels = set(&[("a", "x\ny")]);
    let rule = rules(&json!([{"source_labels": ["a"], "regex": "x.y", "action": "drop"}]));
    assert_eq!(rule.apply(labels), None);
}

#[test]
fn keep_and_drop_filter() {
    check(
        &json!([{"source_labels": ["a"], "regex": "foo", "action": "keep"}]),
        UNCHANGED,
    );
    check(
        &json!([{"source_labels": ["a"], "regex": "fo", "action": "keep"}]),
        None,
    );
    check(
        &json!([{"source_labels": ["a"], "regex": "f.*", "action": "drop"}]),
        None,
    );
    check(
        &json!([{"source_labels": ["a"], "regex": "fo", "action": "drop"}]),
        UNCHANGED,
    );
    check(
        &json!([{"source_labels": ["__meta_x"], "regex": 1, "action": "Drop"}]),
        None,
    );
    check(
        &json!([{"source_labels": ["none"], "regex": "", "action": "drop"}]),
        None,
    );
}

#[test]
fn equality_is_of_the_full_value() {
    let labels = || set(&[("a", "1"), ("b", "1"), ("c", "2")]);
    let apply = |action: &str, target: &str| {
        rules(&json!([{"source_labels": ["a"], "target_label": target, "action": action}]))
            .apply(labels())
            .is_some()
    };
    assert!(apply("keepequal", "b"));
    assert!(!apply("keepequal", "c"));
    assert!(!apply("dropequal", "b"));
    assert!(apply("dropequal", "c"));
    assert!(apply("dropequal", "none"));
}

#[test]
fn hashmod_equals_that_of_prometheus() {
    // From the documentation and tests of Prometheus.
    let rule = json!([{"source_labels": ["c"], "target_label": "d", "action": "hashmod",
        "modulus": 1000}]);
    check(
        &rule,
        Some(&[("a", "foo"), ("b", "bar"), ("c", "baz"), ("d", "976")]),
    );
    let rule = rules(
        &json!([{"source_labels": ["a"], "target_label": "d", "action": "hashmod",
        "modulus": 1000}]),
    );
    let found = rule.apply(set(&[("a", "foo\nbar")])).unwrap();
    assert_eq!(found["d"], "734");
}

#[test]
fn labelmap_copies() {
    let rule = json!([{"regex": "__meta_(.*)", "action": "labelmap"}]);
    check(
        &rule,
        Some(&[("a", "foo"), ("b", "bar"), ("c", "baz"), ("x", "1")]),
    );
    let rule = json!([{"regex": "(a|b)", "replacement": "${1}_copy", "action": "labelmap"}]);
    let expected = [
        ("a", "foo"),
        ("a_copy", "foo"),
        ("b", "bar"),
        ("b_copy", "bar"),
        ("c", "baz"),
    ];
    check(&rule, Some(&expected));
    // Copies are not copied again, and invalid names are left out.
    let rule = json!([{"regex": "(.*)", "replacement": "${1}${1}", "action": "labelmap"},
        {"regex": "(a)(.*)", "replacement": "$2", "action": "labelmap"}]);
    let expected = [
        ("a", "foo"),
        ("aa", "foo"),
        ("b", "bar"),
        ("bb", "bar"),
        ("c", "baz"),
        ("cc", "baz"),
    ];
    check(&rule, Some(&expected));
}

#[test]
fn labeldrop_and_labelkeep_match_names() {
    check(
        &json!([{"regex": "(a|b).*", "action": "labeldrop"}]),
        Some(&[("c", "baz")]),
    );
    check(
        &json!([{"regex": "a", "action": "labelkeep"}]),
        Some(&[("a", "foo")]),
    );
    check(&json!([{"regex": "", "action": "labelkeep"}]), Some(&[]));
}

#[test]
fn lowercase_and_uppercase_change_the_case() {
    let labels = || set(&[("a", "Straße ΟΔΟΣ İ")]);
    let apply = |action: &str| {
        let rule = json!([{"source_labels": ["a"], "target_label": "b", "action": action}]);
        rules(&rule).apply(labels()).unwrap()["b"].clone()
    };
    assert_eq!(apply("lowercase"), "straße οδοσ i");
    assert_eq!(apply("uppercase"), "STRAßE ΟΔΟΣ İ");
}

#[test]
fn a_rule_reads_the_result_of_the_previous_ones() {
    let rule = json!([
        {"source_labels": ["__meta_x"], "target_label": "__tmp"},
        {"source_labels": ["__tmp", "a"], "target_label": "d"},
        {"regex": "a|b|c", "action": "labeldrop"},
        {"source_labels": ["d"], "regex": "1;foo", "action": "keep"}
    ]);
    check(&rule, Some(&[("d", "1;foo")]));
}

#[test]
fn invalid_rules_are_rejected() {
    for rule in [
        json!({"action": "explode"}),
        json!({"action": "replace"}),
        json!({"target_label": "a-b"}),
        json!({"target_label": "1a"}),
        json!({"target_label": "a$"}),
        json!({"target_label": "a${b"}),
        json!({"target_label": "$1-"}),
        json!({"target_label": "a", "regex": "("}),
        json!({"target_label": "a", "regex": "a)|(?:b"}),
        json!({"target_label": "a", "regex": "(?:(?:a{1000}){1000}){1000}"}),
        json!({"target_label": "a", "regexp": "x"}),
        json!({"target_label": "a", "source_labels": "b"}),
        json!({"target_label": "a", "action": "hashmod"}),
        json!({"target_label": "a", "action": "hashmod", "modulus": 0}),
        json!({"target_label": "a$1", "action": "hashmod", "modulus": 2}),
        json!({"target_label": "a", "action": "lowercase", "replacement": "x"}),
        json!({"target_label": "a$1", "action": "uppercase"}),
        json!({"target_label": "a", "action": "keepequal", "regex": "x"}),
        json!({"target_label": "a", "action": "dropequal", "separator": "x"}),
        json!({"action": "keepequal"}),
        json!({"action": "labelmap", "replacement": "a-$1"}),
        json!({"action": "labeldrop", "source_labels": ["a"]}),
        json!({"action": "labelkeep", "target_label": "a"}),
    ] {
        let read: Result<Rules, _> = serde_json::from_value(json!([rule]));
        assert!(read.is_err(), "{rule}");
    }
}

#[test]
fn the_length_of_a_value_is_limited() {
    let double = json!({"source_labels": ["a"], "target_label": "a", "replacement": "$1é$1"});
    let rules = rules(&Value::from(vec![double; 64]));
    let found = rules.apply(set(&[("a", "xy")])).unwrap();
    assert!(found["a"].len() <= MAX_VALUE && found["a"].len() > MAX_VALUE / 2);
}

proptest! {
    #[test]
    fn arbitrary_values_do_not_panic(a in any::<String>(), b in any::<String>()) {
        let rules = rules(&json!([
            {"source_labels": ["a", "b"], "regex": "(.*?)(.);(.*)", "target_label": "$1", "replacement": "$3$2"},
            {"source_labels": ["a"], "target_label": "c", "action": "hashmod", "modulus": 7},
            {"source_labels": ["b"], "target_label": "b", "action": "uppercase"},
            {"regex": "(.)", "replacement": "${1}_x", "action": "labelmap"},
        ]));
        let found = rules.apply(set(&[("a", &a), ("b", &b)])).unwrap();
        prop_assert!(found.keys().all(|name| is_label_name(name)));
    }

    #[test]
    fn arbitrary_rules_do_not_panic(regex in any::<String>(), target in r"[a$\{\}_1é]{0,8}") {
        let rule = json!([{"source_labels": ["a"], "regex": regex, "target_label": target}]);
        if let Ok(rules) = serde_json::from_value::<Rules>(rule) {
            let _ = rules.apply(set(&[("a", "x")]));
        }
    }
}
