//! The import graph of small crates.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::fs;
use std::path::Path;

use architecture::Graph;

/// Reads a crate of these files.
fn graph(files: &[(&str, &str)]) -> Graph {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    Graph::read(&folder.path().join("lib.rs")).unwrap()
}

/// All edges as `from → to: names`.
fn edges(files: &[(&str, &str)]) -> Vec<String> {
    graph(files)
        .arrows()
        .map(|(from, to, names)| {
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            format!("{} → {}: {}", from.display(), to.display(), names.join(" "))
        })
        .collect()
}

#[test]
fn uses_inline_paths_super_and_macros_are_edges() {
    let edges = edges(&[
        ("lib.rs", "mod a; mod b; mod c; mod d;"),
        (
            "a.rs",
            "use crate::b::{B, inner::I as J}; fn f() { crate::c::g(); }",
        ),
        ("b.rs", "pub struct B; pub mod inner { pub struct I; }"),
        (
            "c.rs",
            "pub fn g() -> super::d::D { println!(\"{}\", crate::b::N) }",
        ),
        ("d.rs", "pub struct D;"),
    ]);
    assert_eq!(
        edges,
        ["a.rs → b.rs: B I", "a.rs → c.rs: g", "c.rs → d.rs: D"]
    );
}

#[test]
fn an_edge_leads_through_re_exports_and_globs_to_the_definition() {
    let edges = edges(&[
        (
            "lib.rs",
            "mod room; mod user; mod glob; pub use room::Item;",
        ),
        (
            "room/mod.rs",
            "mod inside; pub use self::inside::{Item, make};",
        ),
        ("room/inside.rs", "pub struct Item; pub fn make() {}"),
        (
            "user.rs",
            "use crate::Item; use crate::room; fn f(_: Item) { room::make() }",
        ),
        ("glob.rs", "use crate::room::*; fn f() -> Item { make() }"),
    ]);
    assert_eq!(
        edges,
        [
            "glob.rs → room/inside.rs: Item make",
            "user.rs → room/inside.rs: Item make",
        ]
    );
}

#[test]
fn a_child_that_uses_its_parent_is_an_edge_and_a_declaration_is_none() {
    let graph = graph(&[
        ("lib.rs", "mod parent;"),
        (
            "parent/mod.rs",
            "mod child; pub use child::Child; pub struct Parent; fn f() { child::go() }",
        ),
        (
            "parent/child.rs",
            "use super::Parent; pub struct Child; pub fn go() -> Parent { Parent }",
        ),
    ]);
    assert_eq!(
        graph.circles(),
        [["parent/child.rs", "parent/mod.rs", "parent/child.rs"].map(std::path::PathBuf::from)]
    );
    assert_eq!(graph.files_on_circles(), (2, 1));
}

#[test]
fn tests_are_left_out() {
    let edges = edges(&[
        ("lib.rs", "mod a; mod b; #[cfg(test)] mod tests;"),
        (
            "a.rs",
            "#[cfg(test)] use crate::b::B; #[cfg(test)] mod tests { use crate::b::B; }",
        ),
        ("b.rs", "pub struct B;"),
    ]);
    assert!(edges.is_empty(), "{edges:?}");
}

#[test]
fn names_of_other_crates_are_listed_apart() {
    let graph = graph(&[
        ("lib.rs", "mod a;"),
        ("a.rs", "use std::net::TcpStream; fn f() { aya::load(); }"),
    ]);
    let names = &graph.foreign[Path::new("a.rs")];
    assert!(names.contains("TcpStream") && names.contains("aya"));
    assert!(graph.edges.is_empty());
}
