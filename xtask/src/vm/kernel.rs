//! The kernels to test on, and how to get them.
//!
//! Invariant: a kernel is fetched once per machine, into the cache. The newest is thereby the
//! newest at the time of its download; remove the cache directory to get another.

use std::env;
use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::str::FromStr;

use anyhow::{Context as _, Error, Result, bail};

use crate::paths;
use crate::process::run;

/// A kernel of Debian's, in its flavour for virtual machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// 5.10, the oldest that the agent supports.
    Linux5_10,
    /// 6.1.
    Linux6_1,
    /// 6.12.
    Linux6_12,
    /// The newest that Debian has.
    Newest,
}

impl Kernel {
    /// All of them, oldest first.
    pub const ALL: [Self; 4] = [
        Self::Linux5_10,
        Self::Linux6_1,
        Self::Linux6_12,
        Self::Newest,
    ];

    /// The two ends, between which most of what differs between kernels lies.
    pub const ENDS: [Self; 2] = [Self::Linux5_10, Self::Newest];

    /// The release of Debian that has it, and what its package is called there.
    fn package(self) -> (&'static str, &'static str) {
        match self {
            Self::Linux5_10 => ("bullseye", r"linux-image-5\.10\.0-[0-9]+-cloud-amd64"),
            Self::Linux6_1 => ("bookworm", r"linux-image-6\.1\.0-[0-9]+-cloud-amd64"),
            Self::Linux6_12 => ("trixie", r"linux-image-6\.12\.[0-9]+\+deb13-cloud-amd64"),
            // Debian has split the image off the package of that name by now.
            Self::Newest => ("sid", r"linux-binary-[0-9.]+\+deb[0-9]+-cloud-amd64"),
        }
    }

    /// Its image and its release (as `uname -r` says), fetched if they are not in the cache.
    pub(super) fn fetch(self) -> Result<(PathBuf, String)> {
        let directory = cache()?.join(self.to_string());
        let image = directory.join("vmlinuz");
        if !image.exists() {
            println!("fetching the kernel {self}");
            fs::create_dir_all(&directory)
                .with_context(|| format!("cannot make {}", directory.display()))?;
            let (suite, pattern) = self.package();
            run(
                Command::new(paths::workspace().join("xtask/vm/fetch-kernel"))
                    .arg(&directory)
                    .args([suite, pattern]),
            )?;
        }
        let package = fs::read_to_string(directory.join("package"))
            .with_context(|| format!("remove {} and try again", directory.display()))?;
        let release = package.trim().splitn(3, '-').last().unwrap_or_default();
        Ok((image, release.to_owned()))
    }
}

/// Where kernels and hosts are kept: `$AGENT_VM_CACHE`, else below the project's cache.
pub(super) fn cache() -> Result<PathBuf> {
    match env::var_os("AGENT_VM_CACHE") {
        Some(directory) => Ok(PathBuf::from(directory)),
        None => Ok(paths::cache()?.join("vm")),
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Linux5_10 => "5.10",
            Self::Linux6_1 => "6.1",
            Self::Linux6_12 => "6.12",
            Self::Newest => "newest",
        })
    }
}

impl FromStr for Kernel {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match Self::ALL
            .into_iter()
            .find(|kernel| kernel.to_string() == name)
        {
            Some(kernel) => Ok(kernel),
            None => bail!(
                "the kernels are {}",
                Self::ALL.map(|kernel| kernel.to_string()).join(", ")
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_named_as_it_is_printed() {
        for kernel in Kernel::ALL {
            assert_eq!(kernel.to_string().parse::<Kernel>().unwrap(), kernel);
        }
        assert_eq!(
            "4.19".parse::<Kernel>().unwrap_err().to_string(),
            "the kernels are 5.10, 6.1, 6.12, newest"
        );
    }
}
