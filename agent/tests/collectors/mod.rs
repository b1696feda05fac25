//! Collectors that refuse what any of theirs refuses: the tests of exporters push to them, and those
//! of the whole agent.

pub(crate) mod otlp;
pub(crate) mod parca;
pub(crate) mod pyroscope;
pub(crate) mod rules;
pub(crate) mod server;
