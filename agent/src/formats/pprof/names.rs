//! What comments begin with, and the keys of labels: what is written and what is read agree on them.

/// How comments begin that are labels of the series.
pub(super) const LABEL: &str = "label ";

/// How comments begin that are processes.
pub(super) const PROCESS: &str = "process ";

/// How those begin that are all processes of a service.
pub(super) const PROCESSES: &str = "processes ";

/// Labels of samples.
pub(super) const THREAD_ID: &str = "thread_id";
pub(super) const THREAD_NAME: &str = "thread_name";
pub(super) const PROCESS_ID: &str = "process_id";
pub(super) const PROCESS_NAME: &str = "process_name";
