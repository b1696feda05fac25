//! The paths that are written in items: in `use`, in types, expressions and patterns, and among the
//! tokens of macro calls.

use std::collections::BTreeMap;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemUse, Macro, UseTree, Visibility};

use crate::module::{attributes, is_test};

/// A path as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UsedPath {
    /// Its segments, without generics.
    pub(crate) segments: Vec<String>,
    /// Whether it is part of a `use` that others may see.
    pub(crate) is_public_use: bool,
}

/// What the items of a module use.
#[derive(Debug, Default)]
pub(crate) struct Used {
    pub(crate) aliases: BTreeMap<String, Vec<String>>,
    pub(crate) globs: Vec<Vec<String>>,
    pub(crate) paths: Vec<UsedPath>,
}

/// The paths in a module's own items; those of modules inside it are their own.
pub(crate) fn of_items(items: &[&Item]) -> Used {
    let mut used = Used::default();
    for item in items {
        if !matches!(item, Item::Mod(_)) {
            used.visit_item(item);
        }
    }
    used
}

impl Used {
    fn add(&mut self, segments: Vec<String>, is_public_use: bool) {
        self.paths.push(UsedPath {
            segments,
            is_public_use,
        });
    }

    fn add_use(&mut self, tree: &UseTree, before: &[String], is_public: bool) {
        let with = |name: &syn::Ident| {
            let mut path = before.to_vec();
            path.push(name.to_string());
            path
        };
        match tree {
            UseTree::Path(path) => self.add_use(&path.tree, &with(&path.ident), is_public),
            UseTree::Name(name) => {
                let (alias, path) = if name.ident == "self" {
                    (before.last().cloned().unwrap_or_default(), before.to_vec())
                } else {
                    (name.ident.to_string(), with(&name.ident))
                };
                self.aliases.insert(alias, path.clone());
                self.add(path, is_public);
            }
            UseTree::Rename(rename) => {
                let path = if rename.ident == "self" {
                    before.to_vec()
                } else {
                    with(&rename.ident)
                };
                self.aliases.insert(rename.rename.to_string(), path.clone());
                self.add(path, is_public);
            }
            UseTree::Glob(_) => self.globs.push(before.to_vec()),
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.add_use(tree, before, is_public);
                }
            }
        }
    }

    /// Sequences of `name::name` and single names among tokens that are not parsed.
    fn add_tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(name) => {
                    if colons != 2 && !path.is_empty() {
                        self.add(std::mem::take(&mut path), false);
                    }
                    path.push(name.to_string());
                    colons = 0;
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
                TokenTree::Group(group) => {
                    self.end_path(&mut path, &mut colons);
                    self.add_tokens(group.stream());
                }
                _ => self.end_path(&mut path, &mut colons),
            }
        }
        self.end_path(&mut path, &mut colons);
    }

    fn end_path(&mut self, path: &mut Vec<String>, colons: &mut usize) {
        if !path.is_empty() {
            self.add(std::mem::take(path), false);
        }
        *colons = 0;
    }
}

impl<'ast> Visit<'ast> for Used {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        let is_test = match item {
            syn::ImplItem::Fn(function) => is_test(&function.attrs),
            syn::ImplItem::Const(constant) => is_test(&constant.attrs),
            _ => false,
        };
        if !is_test {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let is_public = !matches!(item.vis, Visibility::Inherited);
        self.add_use(&item.tree, &[], is_public);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments = path
            .segments
            .iter()
            .map(|segment| segment.ident.to_string());
        self.add(segments.collect(), false);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.visit_path(&call.path);
        self.add_tokens(call.tokens.clone());
    }

    fn visit_attribute(&mut self, _: &'ast Attribute) {
        // Derives and lints name nothing of the crate.
    }

    fn visit_visibility(&mut self, _: &'ast Visibility) {
        // `pub(in path)` uses nothing.
    }
}
