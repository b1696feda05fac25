//! Requests to Pyroscope and Parca, and files.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use collector_doubles::{
    parca::{strict_parca, write_raw},
    pyroscope::{PushRequest, pairs, services, strict_pyroscope},
    rules::{Pprof, check_labels, gunzip},
    server::Server,
};
use proptest::prelude::{Strategy, any, prop, proptest};
use prost::Message as _;

use super::*;
use crate::{
    export::{
        Authentication, BatchOptions, FileConfig, Secret, SecretSource, destination::Destination,
        parca::Parca, pyroscope::Pyroscope, support::SmallDisk,
    },
    profile::fixtures::example_processes,
};

/// A batch with hostile labels.
fn hostile() -> ProfileBatch {
    let mut batch = support::batch("größe \"x\"\n", &pprof());
    let mut labels = (*batch.labels).clone();
    for (name, value) in [
        ("container.id", "abc"),
        ("container_id", "another"),
        ("", "x"),
        ("__hidden__", "x"),
        ("1 2\n3", "x"),
        ("empty", ""),
    ] {
        labels.insert(name.to_owned(), value.to_owned());
    }
    for number in 0..50 {
        labels.insert(format!("z.{number}"), "é".repeat(5_000));
    }
    batch.labels = labels.into();
    batch
}

#[tokio::test]
async fn pyroscope_gets_what_was_sent() {
    let server = Server::start(strict_pyroscope).await;
    let mut config = pyroscope(&format!("{}/prefix/", server.url()));
    let DestinationConfig::Pyroscope(to) = &mut config.destination else {
        unreachable!()
    };
    to.tenant = Some("team-a".to_owned());
    to.http.headers = vec![("X-Extra".to_owned(), Secret::new("extra"))];
    to.http.authentication = Authentication::Basic {
        user: "me".to_owned(),
        password: SecretSource::Value(Secret::new("hunter2")),
    };
    let exporters = start(config);
    exporters.push(&hostile());
    exporters.push(&numbered(1));
    let counts = checked(&exporters.shut_down(Duration::from_secs(60)).await[0]);
    assert_eq!((counts.delivered, counts.attempts), (2, 2), "{counts:?}");

    let received = server.received();
    assert_eq!(received[0].path, "/prefix/push.v1.PusherService/Push");
    assert_eq!(received[0].header("x-scope-orgid"), "team-a");
    assert_eq!(received[0].header("x-extra"), "extra");
    assert_eq!(
        received[0].header("authorization"),
        format!("Basic {}", STANDARD.encode("me:hunter2"))
    );
    assert_eq!(services(&received), ["größe \"x\"", "service 001"]);
    for one in &received {
        let request = PushRequest::decode(one.body.clone()).unwrap();
        assert_eq!(request.series[0].samples[0].raw_profile, pprof());
    }
    // One connection is enough.
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn parca_gets_what_was_sent() {
    let server = Server::start(strict_parca).await;
    let mut config = parca(&server.url());
    let DestinationConfig::Parca(to) = &mut config.destination else {
        unreachable!()
    };
    to.http.headers = vec![("projectID".to_owned(), Secret::new("project"))];
    to.http.authentication = Authentication::Bearer(SecretSource::Value(Secret::new("token")));
    let exporters = start(config);
    exporters.push(&hostile());
    exporters.push(&numbered(1));
    let status = &exporters.shut_down(Duration::from_secs(60)).await[0];
    let counts = checked(status);
    assert_eq!((counts.delivered, counts.attempts), (2, 2), "{status:?}");

    let received = server.received();
    assert_eq!(received[0].header("projectid"), "project");
    assert_eq!(received[0].header("authorization"), "Bearer token");
    for one in &received {
        let request = write_raw(&one.body);
        assert!(request.normalized);
        assert_eq!(request.series[0].samples[0].raw_profile, pprof());
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_folder_that_cannot_be_created_is_refused_at_the_start() {
    let config = exporter(DestinationConfig::File(FileConfig {
        folder: "/proc/nope".into(),
        max_bytes: 1 << 20,
        max_age: Duration::from_secs(3_600),
        function_names: FunctionNames::Plain,
    }));
    let error = Exporters::start(vec![config]).err().unwrap().to_string();
    let begin = "exporter 'test': the folder '/proc/nope' cannot be created or opened (";
    assert!(error.starts_with(begin), "{error}");
    assert!(error.contains("set `folder` to one that"), "{error}");
}

#[tokio::test]
async fn profiles_removed_from_a_full_disk_are_counted() {
    let disk = SmallDisk::mount(64 << 10);
    let exporters = start(exporter(DestinationConfig::File(FileConfig {
        folder: disk.path().to_owned(),
        max_bytes: 1 << 30,
        max_age: Duration::from_secs(3_600),
        function_names: FunctionNames::Plain,
    })));
    exporters.push(&numbered(1));
    until(|| counts(&exporters).delivered == 1).await;
    assert_eq!(counts(&exporters).removed_disk_full, 0);
    disk.fill();
    exporters.push(&numbered(2));
    until(|| counts(&exporters).delivered == 2).await;
    assert_eq!(counts(&exporters).removed_disk_full, 1);
}

#[tokio::test]
async fn a_folder_gets_what_was_sent() {
    let temporary = tempfile::tempdir().unwrap();
    let exporters = start(exporter(DestinationConfig::File(FileConfig {
        folder: temporary.path().to_owned(),
        max_bytes: 1 << 20,
        max_age: Duration::from_secs(3_600),
        function_names: FunctionNames::Plain,
    })));
    exporters.push(&numbered(1));
    let counts = checked(&exporters.shut_down(Duration::from_secs(60)).await[0]);
    assert_eq!(counts.delivered, 1);
    let files: Vec<_> = std::fs::read_dir(temporary.path()).unwrap().collect();
    let path = files[0].as_ref().unwrap().path();
    assert_eq!(std::fs::read(path).unwrap(), pprof());
}

#[tokio::test]
async fn a_profile_that_breaks_the_rules_is_refused_by_these_servers() {
    // The length at its end says that it is small.
    let noise = support::batch("a", b"not gzip\0\0\0\0");
    let server = Server::start(strict_pyroscope).await;
    let exporters = start(pyroscope(&server.url()));
    exporters.push(&noise);
    let counts = checked(&exporters.shut_down(Duration::from_secs(60)).await[0]);
    assert_eq!((counts.dropped.rejected, counts.attempts), (1, 1));

    let server = Server::start(strict_parca).await;
    let exporters = start(parca(&server.url()));
    exporters.push(&noise);
    exporters.push(&large(5 << 20));
    let status = &exporters.shut_down(Duration::from_secs(60)).await[0];
    let counts = checked(status);
    assert_eq!((counts.dropped.rejected, counts.attempts), (2, 2));
    assert_eq!(
        status.last_failure.as_deref(),
        Some("the server responded with gRPC status 3: profile too big")
    );
}

/// A batch of a profile.
fn encoded(profile: crate::profile::Profile) -> ProfileBatch {
    let mut bytes = Vec::new();
    encode(
        &profile,
        Format::Pprof,
        EncodeOptions::default(),
        &mut bytes,
    )
    .unwrap();
    let mut batch = support::batch("web", &bytes);
    batch.profile = profile.into();
    batch
}

#[tokio::test]
async fn a_batch_is_encoded_once_for_each_way_to_name_functions() {
    let options = BatchOptions {
        thread_labels: false,
        pprof_names: [FunctionNames::Plain.into()].into(),
    };
    let batch = ProfileBatch::new(example_processes("/srv/app/main.py"), &options).unwrap();
    let plain = batch.pprof(FunctionNames::Plain).unwrap();
    assert_eq!(batch.pprof_bytes(), plain.len());
    // An exporter that was configured since.
    let module = batch.clone().pprof(FunctionNames::Module).unwrap();
    assert_eq!(batch.pprof_bytes(), plain.len() + module.len());
    let texts = |pprof| {
        Pprof::decode(&*gunzip(pprof).unwrap())
            .unwrap()
            .string_table
    };
    assert!(!texts(&plain).contains(&"main.fib".to_owned()));
    assert!(texts(&module).contains(&"main.fib".to_owned()));
    for names in FunctionNames::ALL {
        let again = batch.pprof(names).unwrap();
        assert!(std::sync::Arc::ptr_eq(
            &again,
            [&plain, &module][names as usize]
        ));
    }
}

#[tokio::test]
async fn pyroscope_gets_large_profiles_in_parts() {
    let mut profile = example_processes("/srv/app/main.py");
    let samples = std::mem::take(&mut profile.samples);
    let (first, last) = (samples[0], samples[samples.len() - 1]);
    profile.samples = vec![first; 33_000];
    profile.samples.push(last);
    let total = profile.total();

    let server = Server::start(strict_pyroscope).await;
    let exporters = start(pyroscope(&server.url()));
    exporters.push(&encoded(profile));
    let status = &exporters.shut_down(Duration::from_secs(60)).await[0];
    assert_eq!(checked(status).delivered, 1, "{status:?}");

    let request = PushRequest::decode(server.received()[0].body.clone()).unwrap();
    assert_eq!(request.series.len(), 1);
    let samples = &request.series[0].samples;
    let parts = samples.iter().map(|sample| {
        let bytes = gunzip(&sample.raw_profile).unwrap();
        Pprof::decode(&*bytes).unwrap()
    });
    let parts: Vec<_> = parts.collect();
    assert!(
        parts
            .iter()
            .all(|part| part.time_nanos == parts[0].time_nanos)
    );
    for part in &parts {
        assert!(part.string_table.iter().any(|text| text == "main.fib"));
        // No thread is a label, which would be a series of its own.
        assert!(part.sample.iter().all(|sample| sample.label.is_empty()));
    }
    let values = parts.iter().flat_map(|part| &part.sample);
    let sum: i64 = values.map(|sample| sample.value[0]).sum();
    assert_eq!(u64::try_from(sum).unwrap(), total);
    let ids: std::collections::BTreeSet<_> = samples.iter().map(|sample| &sample.id).collect();
    assert_eq!((parts.len(), ids.len()), (3, 3));
}

/// Labels of any kind, many of them nearly right.
fn any_labels() -> impl Strategy<Value = BTreeMap<String, String>> {
    let name = proptest::prop_oneof![
        "[a-z_.0-9-]{0,6}",
        "_{0,3}[a-z]{0,2}",
        any::<String>(),
        proptest::strategy::Just("service_name".to_owned()),
    ];
    prop::collection::btree_map(name, any::<String>(), 0..50)
}

proptest! {
    #[test]
    fn whatever_labels_are_they_are_within_the_rules(labels in any_labels()) {
        let mut batch = numbered(1);
        batch.labels = labels.into();
        let http = HttpConfig::new("http://localhost");
        let function_names = FunctionNames::Plain;
        let to = PyroscopeConfig { http: http.clone(), tenant: None, function_names };
        let payload = Pyroscope::new(to).unwrap().pack(&batch).unwrap();
        let request = PushRequest::decode(payload.body).unwrap();
        assert_eq!(check_labels(pairs(&request.series[0].labels)), Ok(()));
        let payload = Parca::new(ParcaConfig { http, function_names }).unwrap().pack(&batch).unwrap();
        let labels = write_raw(&payload.body).series[0].labels.clone().unwrap();
        assert_eq!(check_labels(pairs(&labels.labels)), Ok(()));
    }
}
