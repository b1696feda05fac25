//! Arguments and local variables: that they are those which the program knows, and that nothing is guessed.

use serde_json::{Value, from_str};

use super::output::{frames, text as dump_text, threads, with_function};
use crate::{machine, target::Target};

/// Characters of a value by default.
const CHARACTERS: usize = 128;

/// Dumps of a process whose containers change all the time.
const DUMPS: usize = 20;

const OPTIONS: &str = "--locals --no-native";

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Names and values.
fn pairs(variables: &Value) -> Vec<(&str, &str)> {
    let variables = list(variables).iter();
    variables
        .map(|it| {
            let (name, value) = (it["name"].as_str(), it["value"].as_str());
            (name.unwrap(), value.unwrap())
        })
        .collect()
}

/// A value as the agent shows it.
fn shown(value: &str) -> String {
    match value.char_indices().nth(CHARACTERS) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value.to_owned(),
    }
}

/// The innermost frame with the function of this name.
fn frame<'a>(threads: &'a [Value], function: &str) -> &'a Value {
    let mut all = threads.iter().flat_map(frames);
    let is = |name: &str| name.rsplit('.').next() == Some(function);
    let found = all.find(|frame| frame["function"].as_str().is_some_and(is));
    found.unwrap_or_else(|| panic!("{function} is not in {threads:#?}"))
}

#[test]
fn values_are_those_that_the_program_knows() {
    let _machine = machine::shared();
    machine::for_each_interpreter(|interpreter| {
        let target = Target::start(interpreter, "variables");
        let known: Value = from_str(&target.lines[0]).unwrap();
        let threads = threads(target.pid(), OPTIONS);
        assert_eq!(threads[0]["locals_note"], Value::Null);
        let mut count = 0;
        for (function, expected) in known.as_object().unwrap() {
            let frame = frame(&threads, function);
            for (nth, part) in ["arguments", "locals"].iter().enumerate() {
                let found = pairs(&frame[part]);
                let expected = list(&expected[nth]);
                let names: Vec<&str> = found.iter().map(|(name, _)| *name).collect();
                let expected_names = expected.iter().map(|it| it[0].as_str().unwrap());
                let expected_names: Vec<&str> = expected_names.collect();
                assert_eq!(names, expected_names, "{function}");
                for (expected, (name, value)) in expected.iter().zip(found) {
                    match expected[1].as_str() {
                        None => {}
                        Some("cut") => {
                            assert_eq!(value.chars().count(), CHARACTERS + 1);
                            assert!(value.ends_with('…'), "{value}");
                        }
                        Some(expected) => {
                            assert_eq!(value, shown(expected), "{function}: {name}");
                            count += 1;
                        }
                    }
                }
            }
        }
        assert!(count > 60, "{count}");
        // The variables of a module are none of a function.
        let module = frame(&threads, "<module>");
        assert!(list(&module["arguments"]).is_empty() && list(&module["locals"]).is_empty());
        let text = dump_text(target.pid(), OPTIONS);
        for line in [
            "            self: <__main__.Box at 0x",
            "        Locals:\n            zero: 0\n",
            "            control: 'tab\\t line\\n return",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(
            !text.contains('\u{1b}') && !text.contains('\u{202e}'),
            "{text}"
        );
    });
}

#[test]
fn a_length_is_one_of_characters() {
    let _machine = machine::shared();
    let target = Target::start(machine::one_interpreter(), "variables");
    let threads = threads(target.pid(), &format!("{OPTIONS} --locals-length 16"));
    let all = threads.iter().flat_map(frames);
    let all = all.flat_map(|frame| [pairs(&frame["arguments"]), pairs(&frame["locals"])]);
    let values: Vec<&str> = all.flatten().map(|(_, value)| value).collect();
    assert!(values.contains(&"'xxxxxxxxxxxxxxx…"), "{values:?}");
    assert!(values.iter().all(|value| value.chars().count() <= 17));
}

/// Whether a value is a list of the texts that the workload makes, or one that was left out.
fn is_well_formed(value: &str) -> bool {
    let value = value.strip_suffix('…').map_or_else(
        || value.trim_end_matches(['}', ']']),
        // The last one is cut.
        |value| value.rsplit_once(", ").map_or("", |(head, _)| head),
    );
    let inner = value.trim_start_matches(['{', '[', '(']);
    let is_item = |item: &str| {
        let item = item.trim_matches(['(', ')', '[', ']', '{', '}']);
        item.is_empty()
            || item.parse::<u32>().is_ok()
            || item
                .strip_prefix("'item ")
                .and_then(|it| it.strip_suffix('\''))
                .is_some_and(|it| it.parse::<u32>().is_ok())
            || item.starts_with("'name_")
            || item.starts_with("'members'")
            || item == "set"
    };
    value.starts_with('<') || inner.split(", ").flat_map(|it| it.split(": ")).all(is_item)
}

#[test]
fn containers_that_change_are_read_whole_or_not() {
    let _machine = machine::alone();
    machine::for_each_kind(|interpreter| {
        let target = Target::start(interpreter, "variables_change");
        let (mut values, mut whole) = (0, 0);
        for _ in 0..DUMPS {
            let threads = threads(target.pid(), OPTIONS);
            let main = &threads[0];
            assert_eq!(main["locals_note"], Value::Null, "{main:#}");
            for (name, value) in pairs(&frame(&threads, "wait_with")["arguments"]) {
                assert!(is_well_formed(value), "{name}: {value}");
                values += 1;
                whole += usize::from(!value.starts_with('<'));
            }
        }
        println!("{}: {whole} of {values} values", interpreter.name);
        assert_eq!(values, 4 * DUMPS);
        assert!(whole > 0);
    });
}

#[test]
fn objects_that_lie_are_shown_by_class_and_address() {
    let _machine = machine::shared();
    machine::for_each_kind(|interpreter| {
        let target = Target::start(interpreter, "variables_lie");
        let threads = threads(target.pid(), OPTIONS);
        let frame = frame(&threads, "wait_with");
        assert_eq!(pairs(&frame["arguments"]), [("honest", "7")]);
        let locals = pairs(&frame["locals"]);
        for (name, class) in [
            ("endless", "<list"),
            ("all_of_it", "<list"),
            ("elsewhere", "<list"),
            ("repeated", "<tuple"),
            ("text", "<str"),
            ("number", "<"),
            ("table", "<dict"),
            ("no_class", "<unreadable"),
            ("nested", "[<list"),
        ] {
            let (_, value) = locals.iter().find(|(it, _)| *it == name).unwrap();
            assert!(value.starts_with(class), "{name}: {value}");
        }
        assert!(!dump_text(target.pid(), OPTIONS).contains('\u{1b}'));
    });
}

#[test]
fn a_thread_that_runs_has_none() {
    let _machine = machine::alone();
    let target = Target::start(machine::one_interpreter(), "busy");
    let threads = threads(target.pid(), OPTIONS);
    let busy = with_function(&threads, "main")[0];
    assert_eq!(busy["locals_note"], "not read, the thread ran", "{busy:#}");
    for frame in frames(busy) {
        assert_eq!(
            (&frame["arguments"], &frame["locals"]),
            (&Value::Null, &Value::Null)
        );
    }
    let text = dump_text(target.pid(), OPTIONS);
    assert!(
        text.contains("    locals: not read, the thread ran\n"),
        "{text}"
    );
    // Without the option nothing is said of them.
    assert!(!dump_text(target.pid(), "").contains("    locals: "));
}
