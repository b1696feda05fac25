//! Kinds of profiles under the names that Pyroscope and Parca know.

use std::sync::Arc;

use collector_doubles::{
    parca::write_raw,
    pyroscope::{PushRequest, pairs},
    rules::{Pprof, gunzip},
};
use prost::Message as _;

use super::*;
use crate::{
    export::{
        BatchOptions, PprofNames, destination::Destination, parca::Parca, pyroscope::Pyroscope,
    },
    profile::{
        CPU, Kind, TypeNaming,
        fixtures::{PERIOD_NS, example_profile, of_kind, with_waits},
        kinds::{off_cpu, wall},
    },
};

const NAMES: [PprofNames; 2] = [
    PprofNames {
        functions: FunctionNames::Module,
        types: TypeNaming::Pprof,
    },
    PprofNames {
        functions: FunctionNames::Module,
        types: TypeNaming::Parca,
    },
];

fn batch(kind: &'static Kind) -> ProfileBatch {
    let profile = with_waits(example_profile("main.py"), &[(0, "[waiting: lock]")]);
    let options = BatchOptions {
        thread_labels: true,
        pprof_names: NAMES.into(),
    };
    ProfileBatch::new(of_kind(profile, kind), &options).unwrap()
}

/// The name of the series, with the types and the period of its pprof.
fn key(labels: &[(String, String)], pprof: &[u8]) -> (String, i64) {
    let name = labels.iter().find(|(name, _)| name == "__name__").unwrap();
    let pprof = Pprof::decode(&*gunzip(pprof).unwrap()).unwrap();
    let types = pprof.sample_type.iter().chain(&pprof.period_type);
    let text = |index: i64| &pprof.string_table[usize::try_from(index).unwrap()];
    let types: Vec<_> = types
        .map(|of| format!("{}/{}", text(of.r#type), text(of.unit)))
        .collect();
    (format!("{} {}", name.1, types.join(" ")), pprof.period)
}

fn in_pyroscope(batch: &ProfileBatch) -> (String, i64) {
    let DestinationConfig::Pyroscope(to) = pyroscope("http://localhost").destination else {
        unreachable!()
    };
    let payload = Pyroscope::new(to).unwrap().pack(batch).unwrap();
    let request = PushRequest::decode(payload.body).unwrap();
    let series = &request.series[0];
    let labels: Vec<_> = pairs(&series.labels)
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    key(&labels, &series.samples[0].raw_profile)
}

fn in_parca(batch: &ProfileBatch) -> (String, i64) {
    let DestinationConfig::Parca(to) = parca("http://localhost").destination else {
        unreachable!()
    };
    let payload = Parca::new(to).unwrap().pack(batch).unwrap();
    let request = write_raw(&payload.body);
    let series = &request.series[0];
    let labels = series.labels.clone().unwrap();
    let labels: Vec<_> = pairs(&labels.labels)
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    key(&labels, &series.samples[0].raw_profile)
}

#[test]
fn each_collector_gets_the_names_that_it_knows() {
    let period = i64::try_from(PERIOD_NS).unwrap();
    let named = |name: &str, period| (name.to_owned(), period);
    let cpu = "process_cpu samples/count cpu/nanoseconds cpu/nanoseconds";
    assert_eq!(in_pyroscope(&batch(&CPU)), named(cpu, period));
    assert_eq!(in_parca(&batch(&CPU)), named(cpu, period));
    assert_eq!(
        in_pyroscope(&batch(&wall::KIND)),
        named(
            "wall samples/count wall/nanoseconds wall/nanoseconds",
            period
        )
    );
    assert_eq!(
        in_parca(&batch(&wall::KIND)),
        named(
            "fgprof samples/count time/nanoseconds wallclock/nanoseconds",
            period
        )
    );
    assert_eq!(
        in_pyroscope(&batch(&off_cpu::KIND)),
        named(
            "offcpu samples/count offcpu/nanoseconds offcpu/nanoseconds",
            period
        )
    );
    assert_eq!(
        in_parca(&batch(&off_cpu::KIND)),
        named(
            "parca_agent samples/count wallclock/nanoseconds samples/count",
            1
        )
    );
}

#[test]
fn a_kind_with_equal_names_is_encoded_once() {
    let pprofs = |kind| {
        let batch = batch(kind);
        NAMES.map(|names| batch.pprof(names).unwrap())
    };
    let [one, other] = pprofs(&CPU);
    assert!(Arc::ptr_eq(&one, &other));
    let [one, other] = pprofs(&wall::KIND);
    assert!(!Arc::ptr_eq(&one, &other));
}
