//! The target of a request to the agent's own endpoint for profiles.

pub(super) fn run(bytes: &[u8]) {
    let _ = agent::fuzzing::profile_request(bytes);
}
