//! Where probes are attached, and attaching them.

mod places;
mod recording;
mod sites;

pub(super) use self::{places::Places, recording::Recording, sites::ProbeSites};
