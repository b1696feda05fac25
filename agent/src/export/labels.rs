//! Labels as Pyroscope and Parca accept them.
//!
//! Both have the rules of Prometheus: a name consists of ASCII letters, digits and `_`, does not
//! begin with a digit and is unique; names that begin with `__` are reserved; a label with an empty
//! value is absent. The limits are Pyroscope's defaults, beyond which it rejects the profile.

use std::collections::BTreeMap;

use super::batch::ProfileBatch;
use crate::profile::{SERVICE_NAME_LABEL, TypeNaming};

/// Label of the profile type.
const NAME: &str = "__name__";

/// Most labels of a series, [`NAME`] included.
const MAX_LABELS: usize = 30;

/// Longest name, in bytes.
const MAX_NAME_BYTES: usize = 1_024;

/// Longest value, in bytes.
const MAX_VALUE_BYTES: usize = 2_048;

/// Labels of a batch, by name; its type has the name of this naming.
pub(super) fn of_batch(batch: &ProfileBatch, naming: TypeNaming) -> BTreeMap<String, String> {
    let series = batch.profile.kind.names_in(naming).series;
    let mut labels = BTreeMap::from([
        (NAME.to_owned(), series.to_owned()),
        (SERVICE_NAME_LABEL.to_owned(), value(batch.service())),
    ]);
    for (name, text) in &*batch.labels {
        let (name, text) = (valid_name(name), value(text));
        if labels.len() >= MAX_LABELS {
            break;
        }
        if !text.is_empty() && !name.is_empty() {
            labels.entry(name).or_insert(text);
        }
    }
    labels
}

/// The name with `_` for each character that is not allowed; empty if the name is reserved.
fn valid_name(name: &str) -> String {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.starts_with("__") {
        return String::new();
    }
    let prefix = name
        .starts_with(|c: char| c.is_ascii_digit())
        .then_some('_');
    let characters = name.chars().map(|c| if is_allowed(c) { c } else { '_' });
    let name: String = prefix
        .into_iter()
        .chain(characters)
        .take(MAX_NAME_BYTES)
        .collect();
    // `..x` would become a reserved name.
    let own = name.trim_start_matches('_');
    match name.len() - own.len() {
        0 | 1 => name,
        _ => format!("_{own}"),
    }
}

/// The value, truncated to the limit.
fn value(text: &str) -> String {
    let mut end = MAX_VALUE_BYTES.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        export::support::batch,
        profile::{Kind, fixtures::of_kind},
    };

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let mut batch = batch("", &[]);
        let pairs = pairs.iter().copied();
        let pairs = pairs.map(|(name, text)| (name.to_owned(), text.to_owned()));
        batch.labels = pairs.collect::<BTreeMap<_, _>>().into();
        of_batch(&batch, TypeNaming::Pprof)
    }

    fn custom(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        let labels = labels(pairs).into_iter();
        labels
            .filter(|(name, _)| name != NAME && name != SERVICE_NAME_LABEL)
            .collect()
    }

    #[test]
    fn there_are_always_a_name_and_a_service() {
        for pairs in [
            &[][..],
            &[("service_name", " ")],
            &[("__name__", "x"), ("service.name", "")],
        ] {
            let labels = labels(pairs);
            assert_eq!(labels["__name__"], "process_cpu");
            assert_eq!(labels["service_name"], "unknown_service");
            assert_eq!(labels.len(), 2);
        }
    }

    #[test]
    fn the_name_is_that_of_the_kind_in_the_collector() {
        for &kind in Kind::ALL {
            let mut batch = batch("web", &[]);
            batch.profile = Arc::new(of_kind((*batch.profile).clone(), kind));
            for naming in [TypeNaming::Pprof, TypeNaming::Parca] {
                let name = &of_batch(&batch, naming)["__name__"];
                assert_eq!(name, kind.names_in(naming).series);
            }
        }
    }

    #[test]
    fn names_are_made_valid_and_stay_distinct() {
        let pair = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        assert_eq!(
            custom(&[("container.id", "a")]),
            [pair("container_id", "a")]
        );
        assert_eq!(custom(&[("1st-größe", "a")]), [pair("_1st_gr__e", "a")]);
        assert_eq!(custom(&[("..x", "a")]), [pair("_x", "a")]);
        assert_eq!(custom(&[("a.b", "1"), ("a_b", "2")]), [pair("a_b", "1")]);
        assert_eq!(custom(&[("", "1"), ("__x", "2"), ("a", "")]), []);
    }

    #[test]
    fn there_are_not_too_many_and_none_is_too_long() {
        let names: Vec<_> = (0..100).map(|number| format!("z{number}")).collect();
        let pairs: Vec<_> = names.iter().map(|name| (&**name, "x")).collect();
        assert_eq!(labels(&pairs).len(), 30);
        let long = "é".repeat(2_000);
        let labels = labels(&[(&long, &long), ("service_name", &long)]);
        assert_eq!(labels["service_name"].len(), 2_048);
        assert!(
            labels
                .iter()
                .all(|(name, text)| name.len() <= 1_024 && text.len() <= 2_048)
        );
    }
}
