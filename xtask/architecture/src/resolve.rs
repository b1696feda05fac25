//! From a path as it is written in a module to the item that it names.

use std::path::PathBuf;

use crate::module::{Module, Tree};
use crate::paths::UsedPath;

/// Re-exports that are followed for one path.
const MOST_STEPS: usize = 32;

/// Where an item is defined.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Definition {
    /// The module in which it is.
    pub(crate) module: Vec<String>,
    /// Its name; that of the module itself where a path names a module.
    pub(crate) name: String,
    /// The file in which it is defined.
    pub(crate) file: PathBuf,
}

/// What a path names in a module; nothing for what other crates define, and for a module itself,
/// which is used only when something in it is.
pub(crate) fn resolve(tree: &Tree, module: &Module, path: &UsedPath) -> Option<Definition> {
    look_up(tree, module, &path.segments, MOST_STEPS)
}

fn look_up(tree: &Tree, module: &Module, path: &[String], steps: usize) -> Option<Definition> {
    let steps = steps.checked_sub(1)?;
    let (first, rest) = path.split_first()?;
    match first.as_str() {
        "crate" => member(tree, tree.get(&[])?, rest, steps),
        "self" => member(tree, module, rest, steps),
        "super" => member(tree, parent(tree, module)?, rest, steps),
        "Self" => None,
        _ => member(tree, module, path, steps),
    }
}

/// What `path` names among what a module defines or brings into scope.
fn member(tree: &Tree, module: &Module, path: &[String], steps: usize) -> Option<Definition> {
    let steps = steps.checked_sub(1)?;
    let (first, rest) = path.split_first()?;
    if first == "super" {
        return member(tree, parent(tree, module)?, rest, steps);
    }
    let mut child = module.path.clone();
    child.push(first.clone());
    if let Some(child) = tree.get(&child) {
        return member(tree, child, rest, steps);
    }
    if module.items.contains(first) {
        return Some(Definition {
            module: module.path.clone(),
            name: first.clone(),
            file: module.file.clone(),
        });
    }
    if let Some(alias) = module.aliases.get(first) {
        // `use name;` of another crate brings in itself.
        if alias.first() == Some(first) && alias.len() == 1 {
            return None;
        }
        let whole: Vec<_> = alias.iter().chain(rest).cloned().collect();
        return look_up(tree, module, &whole, steps);
    }
    module.globs.iter().find_map(|glob| {
        let whole: Vec<_> = glob.iter().chain(path).cloned().collect();
        // A glob of another crate resolves to nothing here.
        (glob.first() != Some(first))
            .then(|| look_up(tree, module, &whole, steps))
            .flatten()
    })
}

fn parent<'a>(tree: &'a Tree, module: &Module) -> Option<&'a Module> {
    let (_, parent) = module.path.split_last()?;
    tree.get(parent)
}
