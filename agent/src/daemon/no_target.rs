//! Why no process is what a request for a profile asks for, as a sentence for its client.

use std::{collections::BTreeSet, path::Path};

use super::target_table::TargetTable;
use crate::{
    targets::labels::Labels,
    text::{printable, shortened},
};

/// Most names and values in a sentence.
const MAX_LISTED: usize = 20;

/// Columns of each.
const WIDTH: usize = 60;

/// Whether labels have all of these values.
pub(super) fn have_all(labels: &Labels, wanted: &[(String, String)]) -> bool {
    let has = |(name, value): &(String, String)| labels.get(name) == Some(value.as_str());
    wanted.iter().all(has)
}

/// Why there is no process with this id and these labels; [`None`] if there is one, or may be: a process that has just
/// started is not known yet.
pub(super) fn why_none(
    targets: &TargetTable,
    pid: Option<u32>,
    wanted: &[(String, String)],
) -> Option<String> {
    let Some(pid) = pid else {
        return missing(wanted, targets.all_labels());
    };
    let exists = || Path::new("/proc").join(pid.to_string()).exists();
    let is_known = targets.contains(pid);
    match targets.labels(pid) {
        _ if !is_known && !exists() => Some(format!("there is no process {pid}")),
        None if is_known => Some(format!(
            "process {pid} is not profiled: the configuration leaves it out"
        )),
        Some(labels) if !have_all(&labels, wanted) => {
            let values = labels.iter().map(|(name, value)| format!("{name}={value}"));
            Some(format!(
                "process {pid} has other labels: {}",
                listed(values)
            ))
        }
        // Or it is not examined yet.
        Some(_) | None => None,
    }
}

/// Which of the labels no process has; [`None`] if one has all of them.
fn missing<'a>(
    wanted: &[(String, String)],
    all: impl Iterator<Item = &'a Labels> + Clone,
) -> Option<String> {
    if all.clone().next().is_none() {
        return Some("no process is profiled: the configuration includes none".to_owned());
    }
    if all.clone().any(|labels| have_all(labels, wanted)) {
        return None;
    }
    let nobody_has = |label: &&(String, String)| {
        let mut all = all.clone();
        !all.any(|labels| have_all(labels, std::slice::from_ref(label)))
    };
    let Some((name, value)) = wanted.iter().find(nobody_has) else {
        let wanted = wanted.iter().map(|(name, value)| format!("{name}={value}"));
        return Some(format!(
            "no profiled process has all of these labels: {}",
            listed(wanted)
        ));
    };
    let values: BTreeSet<_> = all.clone().filter_map(|labels| labels.get(name)).collect();
    let name = shown(name);
    Some(if values.is_empty() {
        let names: BTreeSet<_> = all.flat_map(Labels::iter).map(|(name, _)| name).collect();
        format!(
            "no profiled process has a label {name}: besides seconds, event, function_names and pid there are the \
             labels {}",
            listed(names)
        )
    } else {
        format!(
            "no profiled process has {name}={}: there are {}",
            shown(value),
            listed(values)
        )
    })
}

/// For example `api, web and 3 more`.
fn listed(texts: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let texts: Vec<_> = texts.into_iter().map(|text| shown(text.as_ref())).collect();
    let named = texts[..texts.len().min(MAX_LISTED)].join(", ");
    match texts.len().saturating_sub(MAX_LISTED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

fn shown(text: &str) -> String {
    shortened(&printable(text), WIDTH).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(labels: &[(&str, &str)]) -> Labels {
        let owned = labels
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned()));
        Labels::default().with(&owned.collect())
    }

    fn missing_in(all: &[Labels], wanted: &[(&str, &str)]) -> Option<String> {
        let owned = wanted
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned()));
        missing(&owned.collect::<Vec<_>>(), all.iter())
    }

    #[test]
    fn services_that_there_are_are_listed() {
        let all = [
            labels(&[("service_name", "web"), ("namespace", "shop")]),
            labels(&[("service_name", "db")]),
            labels(&[("service_name", "web")]),
        ];
        let of = |wanted: &[(&str, &str)]| missing_in(&all, wanted);
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[("service_name", "web"), ("namespace", "shop")]), None);
        assert_eq!(
            of(&[("service_name", "wbe")]).unwrap(),
            "no profiled process has service_name=wbe: there are db, web"
        );
        assert_eq!(
            of(&[("service_name", "db"), ("namespace", "shop")]).unwrap(),
            "no profiled process has all of these labels: service_name=db, namespace=shop"
        );
        assert_eq!(
            of(&[("second", "5")]).unwrap(),
            "no profiled process has a label second: besides seconds, event, function_names and pid there are the \
             labels namespace, service_name"
        );
    }

    #[test]
    fn the_list_is_bounded() {
        let all: Vec<_> = (100..125)
            .map(|number| labels(&[("service_name", &format!("service-{number}\x1b[31m"))]))
            .collect();
        let text = missing_in(&all, &[("service_name", &"x".repeat(5_000))]).unwrap();
        assert!(text.contains("service-119\\u{1b}[31m and 5 more"), "{text}");
        assert!(text.len() < 1_000 && !text.contains('\x1b'), "{text}");
    }
}
