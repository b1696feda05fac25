//! The control groups of a process, from `/proc/PID/cgroup`: which containers, pod and unit it
//! belongs to.
//!
//! Hosts with version 1 or both versions have one line, and maybe another path, per hierarchy.
//! What a process belongs to is taken from the path that says most; among equals from that of
//! version 2, then systemd's own, then the others in the kernel's order.
//!
//! Containers lie in containers (Docker in Docker, kind), and all are kept, the outermost first;
//! the innermost is *the* container of the process. Whoever may create groups below their own can
//! choose names that look like containers: those are claims, and the outer ones cannot be faked.
//!
//! Invariants: a line or a name that is not understood is left out; an agent in a private
//! namespace of control groups, whose view of others starts with `/..`, sees what is left of the
//! path; names are the kernel's and at most 255 bytes long.

mod container;
mod membership;
mod names;

#[cfg(feature = "testing")]
pub use container::QosClass;
pub use container::{Container, ContainerRuntime};
pub use membership::Cgroup;

#[cfg(test)]
mod tests;
