//! Files of other tools.

use std::fs;

use agent::testing::formats::pprof_schema as schema;
use prost::Message as _;

use super::{Files, error, folded, go, gzip, message, plain, report};

#[test]
fn cpu_time_of_go_is_cpu_time() {
    let file = go("cpu");
    let (text, _) = report(&[&file, "--tree", "--top"]);
    assert!(text.contains(" s of CPU\n"), "{text}");
    assert!(text.contains("main.spin  busy"), "{text}");
    assert!(!text.contains("of type"), "{text}");
    let rows: Vec<_> = text
        .lines()
        .filter(|line| line.contains("runtime.main"))
        .collect();
    assert!(rows.iter().all(|row| row.contains("100.0%")), "{text}");
    // The number of samples too.
    let (text, _) = report(&[&file, "--sample-type", "samples"]);
    assert!(
        text.contains("Values are of type samples; others with --sample-type: cpu\n"),
        "{text}"
    );
}

#[test]
fn memory_of_go_has_its_types() {
    let file = go("heap");
    let original = message(&fs::read(&file).unwrap());
    let total = |of: &schema::Profile, index: usize| -> i64 {
        of.sample.iter().map(|sample| sample.value[index]).sum()
    };
    let types = |of: &schema::Profile| -> Vec<(String, String)> {
        let text = |index: i64| of.string_table[usize::try_from(index).unwrap()].clone();
        let types = of.sample_type.iter();
        types.map(|it| (text(it.r#type), text(it.unit))).collect()
    };
    let (text, _) = report(&[&file]);
    assert!(
        text.contains(
            "Values are of type inuse_space; others with --sample-type: alloc_objects, alloc_space, inuse_objects\n"
        ),
        "{text}"
    );
    assert!(text.contains(" MB of inuse_space\n"), "{text}");
    assert!(text.contains("main.keep  busy\n"), "{text}");

    // What is written has the type with what is counted beside it, and is read again.
    let files = Files::new();
    for (name, count, columns) in [
        ("inuse_space", "inuse_objects", (2, 3)),
        ("alloc_space", "alloc_objects", (0, 1)),
    ] {
        let written = files.path(&format!("{name}.pb.gz"));
        let path = written.to_str().unwrap();
        report(&[&file, "--sample-type", name, "-o", path]);
        let again = message(&fs::read(&written).unwrap());
        let pair = |name: &str, unit: &str| (name.to_owned(), unit.to_owned());
        assert_eq!(types(&again), [pair(count, "count"), pair(name, "bytes")]);
        assert_eq!(total(&again, 0), total(&original, columns.0));
        assert_eq!(total(&again, 1), total(&original, columns.1));
        assert_eq!(folded(&[path]), folded(&[&file, "--sample-type", name]));
        // Twice the same are twice the values.
        let twice = report(&[path, path, "-o", "-", "-f", "folded"]).0;
        let twice: u64 = twice
            .lines()
            .map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap())
            .sum();
        assert_eq!(i64::try_from(twice), Ok(2 * total(&original, columns.1)));
    }
    let inuse = files.path("inuse_space.pb.gz");
    let alloc = files.path("alloc_space.pb.gz");
    let refusal = error(&[inuse.to_str().unwrap(), alloc.to_str().unwrap()]);
    assert!(
        refusal.contains("of two events, inuse_space and alloc_space"),
        "{refusal}"
    );
    let refusal = error(&[&file, "--sample-type", "cpu"]);
    assert!(
        refusal.contains("choose one of alloc_objects, alloc_space, inuse_objects, inuse_space"),
        "{refusal}"
    );
}

#[test]
fn waits_of_go_are_not_those_of_the_agent() {
    let (text, _) = report(&[&go("mutex")]);
    assert!(
        text.contains("Values are of type delay; others with --sample-type: contentions\n"),
        "{text}"
    );
    assert!(text.contains(" s of delay\n"), "{text}");
    let refusal = error(&[&go("mutex"), "--event", "lock"]);
    assert!(
        refusal.contains("is a profile of delay, not of lock"),
        "{refusal}"
    );
}

#[test]
fn frames_without_addresses_are_functions_with_their_file() {
    let files = Files::new();
    let file = files.write("plain.pprof", &plain().encode_to_vec());
    let (text, _) = report(&[&file, "--tree"]);
    assert!(
        text.starts_with(
            "1 profile\nValues are of type wall\nall processes: 3 samples, 2.00 s of wall\n"
        ),
        "{text}"
    );
    let (_, tree) = text.split_once("call tree\n").unwrap();
    assert_eq!(
        tree,
        "\
100.0%  2.00 s    12.5%   main  app.py:1
 50.0%  1.00 s    50.0%     [unknown]
 37.5%  0.75 s              work\\u{1b}[31m  app.py:10
                  37.5%     → deep  app.py
"
    );
    let other = files.write("plain.pb.gz", &gzip(&plain().encode_to_vec()));
    assert_eq!(folded(&[&other]), folded(&[&file]));
    assert_eq!(folded(&[&file]).values().sum::<u64>(), 2_000_000_000);
}
