use std::collections::BTreeSet;

use super::of_batch;
use crate::{
    export::{
        otlp::schema::{ExportRequest, Sample},
        support,
    },
    formats::FunctionNames,
    profile::{
        Kind,
        fixtures::{PERIOD_NS, example_profile, of_kind, with_waits},
        kinds::{cpu, off_cpu, wall},
    },
};

fn request(kind: &'static Kind) -> ExportRequest {
    let waits = [(0, "[waiting: lock]"), (1, "[waiting: page fault]")];
    request_with(kind, &waits)
}

fn request_with(kind: &'static Kind, waits: &[(usize, &str)]) -> ExportRequest {
    let mut batch = support::batch("web", &[]);
    let profile = with_waits(example_profile("/srv/app/main.py"), waits);
    batch.profile = of_kind(profile, kind).into();
    of_batch(&batch, FunctionNames::Plain).unwrap()
}

/// Type and unit of the values, type and unit of the period, the first value, the period.
fn types(request: &ExportRequest) -> ([String; 4], i64, i64) {
    let dictionary = request.dictionary.as_ref().unwrap();
    let profile = &request.resource_profiles[0].scope_profiles[0].profiles[0];
    let (of, period) = (
        profile.sample_type.as_ref().unwrap(),
        profile.period_type.as_ref().unwrap(),
    );
    let texts = [of.r#type, of.unit, period.r#type, period.unit];
    (
        texts.map(|text| dictionary.strings[usize::try_from(text).unwrap()].clone()),
        profile.samples[0].values[0],
        profile.period,
    )
}

#[test]
fn types_have_the_names_of_otlp() {
    let period = i64::try_from(PERIOD_NS).unwrap();
    for (kind, names, value) in [
        (&cpu::KIND, ["samples", "count", "cpu", "nanoseconds"], 120),
        (
            &wall::KIND,
            ["wall", "nanoseconds", "wall", "nanoseconds"],
            120 * period,
        ),
        (
            &off_cpu::KIND,
            ["off_cpu", "nanoseconds", "off_cpu", "nanoseconds"],
            120 * period,
        ),
    ] {
        let names = names.map(str::to_owned);
        assert_eq!(types(&request(kind)), (names, value, period));
    }
}

#[test]
fn what_a_thread_waits_for_is_an_attribute() {
    let request = request(&wall::KIND);
    let waits = attributes(&request, "wait");
    let text = |text: &str| vec![super::Value::text(text)];
    assert_eq!(waits[..3], [text("lock"), text("page fault"), Vec::new()]);
    // A sample that has a wait is not that of another one.
    let samples = &request.resource_profiles[0].scope_profiles[0].profiles[0].samples;
    let distinct: BTreeSet<_> = samples.iter().map(|sample| sample.stack).collect();
    assert!(distinct.len() > 3);
}

#[test]
fn garbage_collection_is_an_attribute() {
    let request = request_with(&cpu::KIND, &[(0, "[gc]")]);
    let found = attributes(&request, "gc");
    assert_eq!(found[..2], [vec![super::Value::text("true")], Vec::new()]);
}

/// The values of the attributes of each sample that have a key.
fn attributes(request: &ExportRequest, key: &str) -> Vec<Vec<super::Value>> {
    let dictionary = request.dictionary.as_ref().unwrap();
    let at = |index: i32| usize::try_from(index).unwrap();
    let samples = &request.resource_profiles[0].scope_profiles[0].profiles[0].samples;
    let of = |sample: &Sample| {
        let attributes = sample.attributes.iter();
        let attributes = attributes.map(|index| &dictionary.attributes[at(*index)]);
        let found = attributes
            .filter(|attribute| dictionary.strings[at(attribute.key)] == key)
            .map(|attribute| attribute.value.clone().unwrap());
        found.collect()
    };
    samples.iter().map(of).collect()
}
