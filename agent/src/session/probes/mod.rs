//! Where probes are attached, and attaching them.

mod places;
mod sites;

pub(super) use self::{places::Places, sites::ProbeSites};
