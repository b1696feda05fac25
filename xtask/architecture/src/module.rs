//! The modules of a crate: what each defines, what names it brings into scope, and the paths in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use syn::{Attribute, Item, Meta};

use crate::paths::{self, UsedPath};

/// A module, outside `#[cfg(test)]`.
#[derive(Debug)]
pub(crate) struct Module {
    /// Names from the crate's root, which has none.
    pub(crate) path: Vec<String>,
    /// The file that it is in, relative to the root's folder.
    pub(crate) file: PathBuf,
    /// What it defines, other modules included.
    pub(crate) items: BTreeSet<String>,
    /// Names that `use` brings into scope, with the paths that they stand for.
    pub(crate) aliases: BTreeMap<String, Vec<String>>,
    /// Modules whose names `use …::*` brings into scope.
    pub(crate) globs: Vec<Vec<String>>,
    /// All paths in it, those of `use` included.
    pub(crate) paths: Vec<UsedPath>,
}

/// All modules of a crate.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    modules: BTreeMap<Vec<String>, Module>,
}

impl Tree {
    /// Reads a crate from its root file.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let folder = root.parent().context("a crate's root is in a folder")?;
        let mut tree = Self::default();
        tree.read_file(folder, root, Vec::new(), folder)?;
        Ok(tree)
    }

    pub(crate) fn modules(&self) -> impl Iterator<Item = &Module> {
        self.modules.values()
    }

    pub(crate) fn get(&self, path: &[String]) -> Option<&Module> {
        self.modules.get(path)
    }

    /// `children` is the folder in which the file's modules are.
    fn read_file(
        &mut self,
        top: &Path,
        file: &Path,
        path: Vec<String>,
        children: &Path,
    ) -> Result<()> {
        let text =
            fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let parsed =
            syn::parse_file(&text).with_context(|| format!("cannot parse {}", file.display()))?;
        self.add(top, file, path, children, &parsed.items)
    }

    fn add(
        &mut self,
        top: &Path,
        file: &Path,
        path: Vec<String>,
        children: &Path,
        items: &[Item],
    ) -> Result<()> {
        let items: Vec<_> = items
            .iter()
            .filter(|item| !is_test(attributes(item)))
            .collect();
        let used = paths::of_items(&items);
        let mut module = Module {
            path: path.clone(),
            file: file.strip_prefix(top)?.to_owned(),
            items: items.iter().filter_map(|item| name(item)).collect(),
            aliases: used.aliases,
            globs: used.globs,
            paths: used.paths,
        };
        for item in &items {
            let Item::Mod(child) = item else {
                continue;
            };
            let name = child.ident.to_string();
            module.items.insert(name.clone());
            let mut child_path = path.clone();
            child_path.push(name.clone());
            let own = children.join(&name);
            if let Some((_, items)) = &child.content {
                let items: Vec<_> = items.clone();
                self.add(top, file, child_path, &own, &items)?;
                continue;
            }
            if child
                .attrs
                .iter()
                .any(|attribute| attribute.path().is_ident("path"))
            {
                bail!("{}: `mod {name}` has a #[path]", file.display());
            }
            let flat = children.join(format!("{name}.rs"));
            let nested = own.join("mod.rs");
            let child_file = if flat.exists() { flat } else { nested };
            self.read_file(top, &child_file, child_path, &own)?;
        }
        self.modules.insert(path, module);
        Ok(())
    }
}

/// Whether an item is compiled for tests only.
pub(crate) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => {
            let condition: String = list
                .tokens
                .to_string()
                .chars()
                .filter(|character| !character.is_whitespace())
                .collect();
            condition == "test" || condition.starts_with("all(test,")
        }
        Meta::Path(path) => path.is_ident("test"),
        _ => false,
    })
}

pub(crate) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn name(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::TraitAlias(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}
