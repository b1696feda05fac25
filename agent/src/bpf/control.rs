//! The map with what the agent changes while the BPF programs run.

/// One value, [`Control`](agent_common::maps::Control). Written by the agent, read by the BPF programs.
pub(super) const CONTROL: &str = "CONTROL";
