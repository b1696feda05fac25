//! The import graph of a crate: which file uses an item that is defined in which other file.
//!
//! An edge is any path that resolves to an item of the same crate, outside `#[cfg(test)]`: in a
//! `use`, inline, through `super`, a glob or a re-export, also inside a macro call. It leads to the
//! file that *defines* the item, so that a re-export hides nothing. `mod x;` and `pub use` of an own
//! child are no edges; a child that uses its parent's items has one.
//!
//! Invariants: nothing is compiled or run; a path that does not resolve within the crate belongs to
//! another crate or to the prelude and is left out; methods and associated items count with the
//! type whose path is written.

mod cycle;
mod files;
mod module;
mod paths;
mod resolve;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Result;

pub use files::files;
use module::Tree;

/// Files and what each uses of the others, with paths relative to the crate's source folder.
#[derive(Debug, Default)]
pub struct Graph {
    /// Every file outside `#[cfg(test)]`.
    pub files: BTreeSet<PathBuf>,
    /// From a file to the files that it uses, with the names used.
    pub edges: BTreeMap<PathBuf, BTreeMap<PathBuf, BTreeSet<String>>>,
    /// From a file to the segments of paths in it that lead out of the crate.
    pub foreign: BTreeMap<PathBuf, BTreeSet<String>>,
}

impl Graph {
    /// Reads the crate whose root is `root`, such as `src/lib.rs`.
    ///
    /// # Errors
    ///
    /// When a file cannot be read or parsed.
    pub fn read(root: &Path) -> Result<Self> {
        let tree = Tree::read(root)?;
        let mut graph = Self::default();
        for module in tree.modules() {
            graph.files.insert(module.file.clone());
            for path in &module.paths {
                let Some(item) = resolve::resolve(&tree, module, path) else {
                    let foreign = graph.foreign.entry(module.file.clone()).or_default();
                    foreign.extend(path.segments.iter().cloned());
                    continue;
                };
                let is_own_child = path.is_public_use && item.module.starts_with(&module.path);
                if item.file != module.file && !is_own_child {
                    let uses = graph.edges.entry(module.file.clone()).or_default();
                    uses.entry(item.file).or_default().insert(item.name);
                }
            }
        }
        Ok(graph)
    }

    /// Circles of files, each as the shortest way around from its first file.
    #[must_use]
    pub fn circles(&self) -> Vec<Vec<PathBuf>> {
        cycle::circles(&self.edges)
    }

    /// How many files lie on circles, and how many circles (strongly connected sets) there are.
    #[must_use]
    pub fn files_on_circles(&self) -> (usize, usize) {
        let components = cycle::components(&self.edges);
        (components.iter().map(Vec::len).sum(), components.len())
    }

    /// All edges, as `(from, to, names)`.
    pub fn arrows(&self) -> impl Iterator<Item = (&Path, &Path, &BTreeSet<String>)> {
        self.edges.iter().flat_map(|(from, uses)| {
            uses.iter()
                .map(|(to, names)| (from.as_path(), to.as_path(), names))
        })
    }
}
