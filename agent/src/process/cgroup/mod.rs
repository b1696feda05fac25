//! Control groups of a process, from `/proc/PID/cgroup`: its containers, pods and systemd unit.
//!
//! Hosts with cgroup v1 or with both versions have one line per hierarchy, possibly with different
//! paths. The most specific path is used; among equals that of v2, then systemd's own hierarchy,
//! then the others in the kernel's order.
//!
//! Containers nest (Docker in Docker, kind). All are kept, the outermost first, and that one counts, or
//! the pod around it: a process that may create control groups below its own can give them the names of
//! other containers and pods, so inner names are claims. So are all names below a user manager.
//!
//! Invariants: a malformed line or an unrecognised name is skipped; an agent in a cgroup namespace
//! of its own sees paths outside it as `/..` and what follows; names are at most 255 bytes long,
//! which the kernel guarantees.

mod container;
mod membership;
mod names;

#[cfg(feature = "testing")]
pub use container::QosClass;
pub use container::{Container, ContainerRuntime};
pub use membership::{Cgroup, is_whole_unit_name, stem_of_unit};

#[cfg(test)]
mod tests;
