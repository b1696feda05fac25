//! Circles in a graph of files.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;

type Edges = BTreeMap<PathBuf, BTreeMap<PathBuf, BTreeSet<String>>>;

/// The strongly connected sets of more than one file.
pub(crate) fn components(edges: &Edges) -> Vec<Vec<PathBuf>> {
    let reach: BTreeMap<&PathBuf, BTreeSet<&PathBuf>> = edges
        .keys()
        .map(|file| (file, reachable(edges, file)))
        .collect();
    let mut placed = BTreeSet::new();
    let mut found = Vec::new();
    for (&file, reached) in &reach {
        if !reached.contains(file) || !placed.insert(file) {
            continue;
        }
        let mut component = vec![file.clone()];
        for &other in reached {
            let is_back = reach.get(other).is_some_and(|back| back.contains(file));
            if is_back && placed.insert(other) {
                component.push(other.clone());
            }
        }
        found.push(component);
    }
    found
}

/// One shortest circle of each strongly connected set, its first file again at the end.
pub(crate) fn circles(edges: &Edges) -> Vec<Vec<PathBuf>> {
    components(edges)
        .iter()
        .filter_map(|component| {
            component
                .iter()
                .filter_map(|file| shortest(edges, file))
                .min_by_key(Vec::len)
        })
        .collect()
}

fn reachable<'a>(edges: &'a Edges, from: &PathBuf) -> BTreeSet<&'a PathBuf> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<_> = edges
        .get(from)
        .into_iter()
        .flat_map(|to| to.keys())
        .collect();
    while let Some(file) = open.pop() {
        if reached.insert(file) {
            open.extend(edges.get(file).into_iter().flat_map(|to| to.keys()));
        }
    }
    reached
}

fn shortest(edges: &Edges, from: &PathBuf) -> Option<Vec<PathBuf>> {
    let mut before: BTreeMap<&PathBuf, &PathBuf> = BTreeMap::new();
    let mut open = VecDeque::from([from]);
    while let Some(file) = open.pop_front() {
        for next in edges.get(file).into_iter().flat_map(|to| to.keys()) {
            if next == from {
                let mut circle = vec![from.clone()];
                let mut at = file;
                while at != from {
                    circle.push(at.clone());
                    at = before.get(at)?;
                }
                circle.push(from.clone());
                circle.reverse();
                return Some(circle);
            }
            if !before.contains_key(next) {
                before.insert(next, file);
                open.push_back(next);
            }
        }
    }
    None
}
