//! An OpenTelemetry Collector, built from Debian's packages of its source.
//!
//! Debian has no binary of it, only its Go packages, so that a main program in this directory selects
//! its components. Building takes about 100 s of CPU time, on as many processors as there
//! are, most of it for what the collector's own service imports; no option of the compiler makes a
//! difference.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use super::SHELF;
use crate::cache::Site;
use crate::debian::{self, Apt, SID};

/// The name of the collector.
const PROGRAM: &str = "otelcol";

/// The main program.
const MAIN: &str = include_str!("../../reference_tools/collector.go");

/// The compiler, and the collector's own packages, which depend on all others.
const PACKAGES: [&str; 2] = ["golang-go", "golang-opentelemetry-collector-dev"];

/// How the names of packages begin that the compiler may need.
const SOURCES: &str = "golang-";

/// Packages that nothing imports and that are more than half of the size of all: tools and clients
/// of clouds.
const NOT_IMPORTED: [&str; 4] = [
    "golang-github-aws-aws-sdk-go-v2-dev",
    "golang-golang-x-tools",
    "golang-google-api-dev",
    "golang-google-cloud-dev",
];

pub(super) fn ensure() -> Result<PathBuf> {
    let directory = SHELF.ensure(&SID.cache_name("opentelemetry-collector"), build)?;
    Ok(directory.join(PROGRAM))
}

fn build(site: &Site) -> Result<()> {
    let mut packages = Apt::update(site, SID)?.download_closure(site, &PACKAGES)?;
    packages.retain(|package| {
        let name = package.name();
        name.starts_with(SOURCES) && !NOT_IMPORTED.contains(&name)
    });
    let root = site.scratch.join("root");
    debian::unpack(site, &packages, &root)?;
    let source = site.scratch.join("source");
    fs::create_dir(&source)?;
    fs::write(source.join("main.go"), MAIN)?;
    let go = root.join("usr/lib/go");
    site.run(
        Command::new(go.join("bin/go"))
            // It takes a few requests: not optimized it is built faster.
            .args(["build", "-gcflags=all=-N -l", "-ldflags=-s", "-o"])
            .arg(site.unfinished.join(PROGRAM))
            .current_dir(&source)
            .env("GOROOT", &go)
            .env("GOPATH", root.join("usr/share/gocode"))
            .env("GOCACHE", site.scratch.join("cache"))
            .env("GOTMPDIR", &site.scratch)
            // All packages are there, and nothing is fetched.
            .env("GO111MODULE", "off")
            .env("GOTOOLCHAIN", "local")
            .env("GOENV", "off")
            .env("CGO_ENABLED", "0")
            .env_remove("GOFLAGS"),
    )
}
