//! The programs of a cluster: etcd from a package of Debian, and the API server, of which Debian only
//! has the source.
//!
//! Invariants: the source is verified by a hash that is pinned here; what is built is for tests,
//! with neither cloud providers nor optimization, which take most of the time.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::cache::{Shelf, Site};
use crate::debian::{self, BOOKWORM};
use crate::tools::go::{self, Go};
use crate::tools::{KUBECTL, OPENSSL};

/// The last source package that has all of Kubernetes, and the SHA-256 of its archive.
const VERSION: &str = "1.20.2";
const ARCHIVE: &str = "pool/main/k/kubernetes/kubernetes_1.20.5+really1.20.2.orig.tar.gz";
const SHA256: &str = "b83c0780efb182d928dc63d46488a847f161f04e40a94b96bf5247dd671ecdfc";

/// The generator of the descriptions of all types, which are not in the source.
const GENERATOR: &str = "./vendor/k8s.io/kube-openapi/cmd/openapi-gen";

/// The marker in packages with such types.
const DESCRIBED: &str = "+k8s:openapi-gen=";

/// Packages with such types that are not part of the API server.
const EXAMPLES: [&str; 3] = ["code-generator", "sample-apiserver", "testdata"];

/// The prefix of packages that Kubernetes has copies of.
const VENDORED: &str = "k8s.io/kubernetes/vendor";

/// The built programs in the cache.
const SHELF: Shelf = Shelf("programs");

/// The paths of the programs.
pub(super) struct Programs {
    pub(super) etcd: PathBuf,
    pub(super) api_server: PathBuf,
    pub(super) kubectl: PathBuf,
}

impl Programs {
    /// Finds or makes the programs.
    pub(super) fn ensure() -> Result<Self> {
        OPENSSL.ensure()?;
        Ok(Self {
            etcd: debian::program(BOOKWORM, "etcd-server", "etcd")?,
            api_server: api_server()?,
            kubectl: KUBECTL.ensure()?,
        })
    }
}

fn api_server() -> Result<PathBuf> {
    let name = format!("kube-apiserver-{VERSION}");
    let directory = SHELF.ensure(&name, build)?;
    Ok(directory.join("kube-apiserver"))
}

fn build(site: &Site) -> Result<()> {
    let go = go::oldest()?;
    let source = fetch(site)?;
    let generator = site.scratch.join("openapi-gen");
    site.run(
        build_command(&go, site, &source)
            .arg("-o")
            .arg(&generator)
            .arg(GENERATOR),
    )?;
    let types = described(&source)?;
    site.run(
        environment(&mut Command::new(&generator), site)
            .current_dir(&source)
            .args([
                "--logtostderr",
                "--output-file-base",
                "zz_generated.openapi",
            ])
            .args([
                "--output-package",
                "k8s.io/kubernetes/pkg/generated/openapi",
            ])
            .args([
                "--go-header-file",
                "hack/boilerplate/boilerplate.generatego.txt",
            ])
            .arg("--report-filename")
            .arg(site.scratch.join("violations"))
            .args(["--input-dirs", &types.join(",")]),
    )?;
    let version = format!("{VENDORED}/k8s.io/component-base/version.gitVersion=v{VERSION}");
    let linked = format!("-s -w -X {version}");
    site.run(
        build_command(&go, site, &source)
            .args(["-tags", "providerless dockerless"])
            .args(["-gcflags", "all=-N -l", "-ldflags", &linked])
            .arg("-o")
            .arg(site.unfinished.join("kube-apiserver"))
            .arg("./cmd/kube-apiserver"),
    )
}

/// The source, in the directory where Go expects it.
fn fetch(site: &Site) -> Result<PathBuf> {
    let archive = site.scratch.join("kubernetes.tar.gz");
    let download = |mirror| site.download(&format!("{mirror}/{ARCHIVE}"), SHA256, &archive);
    download(debian::MIRROR).or_else(|error| download(debian::ARCHIVE).map_err(|_| error))?;
    let source = site.scratch.join("src/k8s.io/kubernetes");
    fs::create_dir_all(&source)?;
    site.run(
        Command::new("tar")
            .args(["--extract", "--strip-components=1", "--file"])
            .arg(&archive)
            .arg("--directory")
            .arg(&source),
    )?;
    Ok(source)
}

/// `go build` without modules, as this version was built.
fn build_command(go: &Go, site: &Site, source: &Path) -> Command {
    let mut command = go.command();
    environment(&mut command, site)
        .arg("build")
        .current_dir(source);
    command
}

fn environment<'a>(command: &'a mut Command, site: &Site) -> &'a mut Command {
    command
        .env("GO111MODULE", "off")
        .env("GOFLAGS", "")
        .env("GOPATH", &site.scratch)
        .env("GOCACHE", site.scratch.join("cache"))
        .env("CGO_ENABLED", "0")
}

/// The packages whose types are described: those with a marker in any file.
fn described(source: &Path) -> Result<Vec<String>> {
    let mut packages = BTreeSet::new();
    let mut waiting = vec![source.join("pkg"), source.join("staging/src/k8s.io")];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                waiting.push(path);
            } else if path.extension().is_some_and(|extension| extension == "go")
                && fs::read_to_string(&path)?.contains(DESCRIBED)
            {
                let directory = directory.strip_prefix(source)?.to_string_lossy();
                packages.insert(match directory.strip_prefix("staging/src/") {
                    Some(package) => format!("{VENDORED}/{package}"),
                    None => format!("k8s.io/kubernetes/{directory}"),
                });
            }
        }
    }
    let is_example = |package: &String| EXAMPLES.iter().any(|part| package.contains(part));
    Ok(packages.into_iter().filter(|it| !is_example(it)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_with_described_types_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path();
        for (file, text) in [
            ("pkg/a/types.go", "// +k8s:openapi-gen=true"),
            ("pkg/b/types.go", "package b"),
            (
                "staging/src/k8s.io/api/v1/doc.go",
                "// +k8s:openapi-gen=true",
            ),
            (
                "staging/src/k8s.io/api/v1/testdata/x.go",
                "+k8s:openapi-gen=true",
            ),
        ] {
            let file = source.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        let expected = [
            "k8s.io/kubernetes/pkg/a",
            "k8s.io/kubernetes/vendor/k8s.io/api/v1",
        ];
        assert_eq!(described(source).unwrap(), expected);
    }
}
