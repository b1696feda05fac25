//! Builds the BPF programs into `$OUT_DIR/agent.bpf.o`, which is embedded in the agent.
//!
//! `AGENT_EBPF_OBJECT` names a ready object to embed instead, for packagers.

fn main() {
    build_bpf::build_script("agent.bpf.o");
}
