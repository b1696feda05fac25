use super::Selector;
use crate::{
    process::cgroup::Cgroup,
    targets::labels::{
        Subject,
        metadata::ProcessMetadata,
        pods::{ContainerInfo, Pod},
    },
};
use serde_json::{Value, json};
use std::sync::Arc;

const ID: &str = "1cbbbc3e0ecd42a94a9a7c1f2d3e4f5061728394a5b6c7d8e9f00112233445aa";
const UID: &str = "8c1f3a9e-7b2d-4f53-9a01-2b7cf2a1d9e4";

fn metadata() -> ProcessMetadata {
    ProcessMetadata {
        pid: 7,
        comm: "gunicorn".to_owned(),
        executable: "/usr/bin/python3.12".into(),
        script: Some("shop".to_owned()),
        user: Some(33),
        cgroup: Cgroup::parse(format!("0::/kubepods/pod{UID}/{ID}").as_bytes()),
        ..ProcessMetadata::default()
    }
}

fn container_info() -> ContainerInfo {
    let pod = Pod {
        uid: UID.to_owned(),
        name: "shop-7d9f".to_owned(),
        namespace: "prod".to_owned(),
        ..Pod::default()
    };
    ContainerInfo {
        container: Some("web".to_owned()),
        pod: Some(Arc::new(pod)),
        ..ContainerInfo::default()
    }
}

fn selector(written: &Value) -> Selector {
    serde_json::from_value(written.clone()).unwrap_or_else(|error| panic!("{written}: {error}"))
}

fn selects(written: &Value, container_info: Option<&ContainerInfo>) -> bool {
    let metadata = metadata();
    selector(written).selects(&Subject {
        metadata: &metadata,
        container_info,
    })
}

#[test]
fn each_field_is_matched() {
    let container_info = container_info();
    for (fact, fits, fits_not) in [
        ("pid", json!([6, 7]), json!(8)),
        ("command", json!("gunicorn"), json!("gun")),
        ("command", json!(["x", "python3*"]), json!("ruby")),
        ("command", json!("sh?p"), json!("sh?")),
        ("command", json!("shop.py"), json!("shop.p")),
        ("user", json!(33), json!(0)),
        ("user", json!(["root", "33"]), json!("root")),
        ("cgroup", json!("/kubepods"), json!("/kube")),
        ("container", json!("w*"), json!("web2")),
        ("container", json!("1cbbbc3e0ecd"), json!("1cbbbc")),
        ("pod", json!("shop-*"), json!("shop")),
        ("pod", json!("prod/shop-*"), json!("test/*")),
        ("pod", json!(UID), json!(&UID[1..])),
        ("namespace", json!(["test", "prod"]), json!("test")),
    ] {
        assert!(
            selects(&json!({"include": [{fact: fits}]}), Some(&container_info)),
            "{fact} {fits}"
        );
        let written = json!({"include": [{fact: fits_not}]});
        assert!(
            !selects(&written, Some(&container_info)),
            "{fact} {fits_not}"
        );
    }
    let unit = json!({"include": [{"unit": "*"}]});
    assert!(!selects(&unit, Some(&container_info)));
}

#[test]
fn conditions_that_match_nothing_are_known() {
    let mut selector = selector(&json!({
        "include": [{"user": ["33", 34], "command": "gunicorn"}, {"unit": "webb"}],
        "exclude": [{"command": "gunicron"}, {"pid": 7}],
    }));
    let metadata = metadata();
    let subject = Subject {
        metadata: &metadata,
        container_info: None,
    };
    let before = selector.unmatched();
    assert!(before.is_nothing_included);
    assert_eq!(
        before.include,
        ["command: gunicorn, user: [33, 34]", "unit: webb"]
    );
    assert_eq!(before.exclude, ["command: gunicron", "pid: 7"]);
    assert!(!selector.selects(&subject));
    let after = selector.unmatched();
    assert!(!after.is_nothing_included);
    assert_eq!(after.include, ["unit: webb"]);
    assert_eq!(after.exclude, ["command: gunicron"]);
    assert!(!Selector::default().unmatched().is_nothing_included);
}

/// As `--unit` does.
#[test]
fn a_unit_is_a_service_or_a_slice() {
    let metadata = ProcessMetadata {
        cgroup: Cgroup::parse(b"0::/system.slice/system-web.slice/web@1.service/inner\n"),
        ..metadata()
    };
    let subject = Subject {
        metadata: &metadata,
        container_info: None,
    };
    for (unit, fits) in [
        ("web@1", true),
        ("web@*", true),
        ("web@1.service", true),
        ("system.slice", true),
        ("system-web.slice", true),
        ("web", false),
        ("system", false),
        ("inner", false),
    ] {
        let written = json!({"include": [{"unit": unit}]});
        assert_eq!(selector(&written).selects(&subject), fits, "{unit}");
    }
}

#[test]
fn a_condition_requires_all_fields_and_a_list_one_condition() {
    assert!(selects(&json!({}), None));
    assert!(!selects(&json!({"include": [{"pid": 7, "user": 0}]}), None));
    assert!(selects(
        &json!({"include": [{"pid": 8}, {"user": 33}]}),
        None
    ));
    assert!(!selects(&json!({"exclude": [{"pid": 7}]}), None));
    assert!(!selects(
        &json!({"include": [{"pid": 7}], "exclude": [{"user": 33}]}),
        None
    ));
    assert!(selects(&json!({"exclude": [{"pid": 7, "user": 0}]}), None));
}

#[test]
fn missing_metadata_matches_nothing() {
    assert!(!selects(&json!({"include": [{"namespace": "*"}]}), None));
    assert!(selects(&json!({"exclude": [{"namespace": "*"}]}), None));
    // The UID and the id are from the control group, without any source of names.
    assert!(selects(&json!({"include": [{"pod": UID}]}), None));
    assert!(selects(&json!({"include": [{"container": ID}]}), None));
}

#[test]
fn invalid_selectors_are_rejected() {
    for written in [
        json!({"include": [{}]}),
        json!({"exclude": [{"pid": []}]}),
        json!({"include": [{"comand": "x"}]}),
        json!({"only": []}),
        json!({"include": [{"user": "no-such-user"}]}),
        json!({"include": [{"user": -1}]}),
        json!({"include": [{"pid": "x"}]}),
        json!({"include": [{"cgroup": "system.slice"}]}),
    ] {
        let read: Result<Selector, _> = serde_json::from_value(written.clone());
        assert!(read.is_err(), "{written}");
    }
}
