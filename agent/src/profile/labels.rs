//! Labels of a series whose names the agent itself uses.

/// Name of the label that has the service's name.
pub const SERVICE_NAME_LABEL: &str = "service_name";
