//! The name that was meant by an unknown one.

/// Jaro-Winkler similarity from which on a name is suggested for an unknown one.
const SIMILAR: f64 = 0.7;

/// The most similar of the known names, if one is similar.
pub(super) fn nearest<'a>(
    unknown: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let rated = known
        .into_iter()
        .map(|name| (strsim::jaro_winkler(unknown, name), name));
    // Of equals the first one.
    let best = rated.reduce(|best, other| if other.0 > best.0 { other } else { best });
    best.filter(|(similarity, _)| *similarity >= SIMILAR)
        .map(|(_, name)| name)
}
