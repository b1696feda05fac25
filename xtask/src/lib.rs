//! What the commands of `cargo xtask` and the agent's tests share.
//!
//! | modules | what |
//! |---|---|
//! | [`interpreters`] | the Python interpreters that tests profile |
//! | [`reference_tools`], [`cluster`] | programs that tests send profiles to or run the agent beside |
//! | [`tools`] | the compilers, debuggers and runtimes that tests run |
//! | [`architecture`] | the architectures that the agent is for, and the compilers for the one that this machine does not have |
//! | [`vm`] | other kernels, in virtual machines |
//! | [`workloads`] | large programs that the bench profiles |
//! | [`packaging`] | the Debian package, the files of a release and the container image |
//! | [`cargo_tools`] | subcommands of cargo that package the agent and check its dependencies |
//! | [`debian`], [`packages`], [`pip`] | where programs come from: packages that are unpacked in the cache, packages that are installed, the Python Package Index |
//! | [`paths`], [`process`], [`libraries`] | helpers |
//!
//! The crate `build-bpf` beside this one builds the BPF programs, and the binary has the commands.
//!
//! There is no `rust-toolchain.toml`: everything builds with each toolchain from the version that
//! `Cargo.toml` declares, rustup's or the distribution's. A pinned one would make rustup download
//! it although a toolchain is there that does, and has no meaning where Rust is a package of the
//! distribution. What does depend on the toolchain, bpf-linker and its LLVM, is chosen to fit it
//! and pinned by `build-bpf`.
//!
//! Invariant: the machine is changed only through `packages`, through rustup's components and in
//! the cache directory.

pub mod architecture;
mod cache;
pub mod cargo_tools;
pub mod cluster;
pub mod debian;
pub mod interpreters;
pub mod libraries;
pub mod packages;
pub mod packaging;
pub mod paths;
pub mod pip;
pub mod process;
pub mod processors;
pub mod reference_tools;
pub mod tools;
pub mod vm;
pub mod workloads;
