use super::{SHORT_LIVED, TargetTable};
use crate::config::fixtures::config;

/// A process that the table does not have.
const UNKNOWN: u32 = 4711;

fn table(selection: &str) -> TargetTable {
    TargetTable::new(&config(selection))
}

fn service(selection: &str) -> Option<String> {
    let labels = table(selection).labels(UNKNOWN)?;
    labels.get("service_name").map(str::to_owned)
}

#[test]
fn programs_that_ended_before_they_were_examined_are_a_service_unless_the_selection_is_by_what_they_were()
 {
    for selection in [
        "",
        "exclude: [{command: 'postgres'}]",
        "exclude: [{pod: 'batch/*'}]",
        "include: [{command: '[short-lived programs]'}, {unit: shop.service}]",
        "include: [{command: '*'}]",
    ] {
        assert_eq!(
            service(selection).as_deref(),
            Some(SHORT_LIVED),
            "{selection}"
        );
    }
    for selection in [
        "include: [{unit: shop.service}]",
        "include: [{user: 0}]",
        "include: [{command: 'python*'}]",
        "include: [{namespace: prod}]",
        "exclude: [{command: '[short-lived programs]'}]",
    ] {
        assert_eq!(service(selection), None, "{selection}");
    }
}

#[test]
fn they_match_no_condition_of_which_it_is_said_that_it_has_matched_nothing() {
    let table = table("include: [{command: '*'}]");
    assert_eq!(table.unmatched().include.len(), 1);
}
