//! Where probes are attached, attaching them, and what they cost.

mod cost;
mod places;
mod recording;
mod sites;

pub(super) use self::{cost::run_ns, places::Places, recording::Recording, sites::ProbeSites};
