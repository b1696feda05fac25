//! Prefixes of comments and keys of labels, shared by the writer and the reader.

/// Prefix of comments with a label of the series.
pub(super) const LABEL: &str = "label ";

/// Prefix of comments with a process.
pub(super) const PROCESS: &str = "process ";

/// Prefix of a comment that stands for all processes of a service.
pub(super) const PROCESSES: &str = "processes ";

/// Prefix of a comment with the name of the kind, where the types of the values do not tell it.
pub(super) const EVENT: &str = "event ";

/// Prefix of a comment with the period in nanoseconds, where the type of the period is another.
pub(super) const PERIOD_NS: &str = "period_ns ";

/// Keys of labels of samples.
pub(super) const THREAD_ID: &str = "thread_id";
pub(super) const THREAD_NAME: &str = "thread_name";
pub(super) const WAIT: &str = "wait";

/// Label: name of the lock for which it waits, or that it releases.
pub(super) const LOCK: &str = "lock";

/// Label: name of the thread that it keeps waiting.
pub(super) const BLOCKS: &str = "blocks";

/// Label: the thread collected garbage. Its one value.
pub(super) const GC: &str = "gc";
/// Label of the type of memory that a sample is about.
pub(super) const MEMORY: &str = "memory";
/// Label: class of the exception that it raised.
pub(super) const EXCEPTION: &str = "exception";
/// Label: name of the task of asyncio that it ran.
pub(super) const TASK: &str = "task";
pub(super) const TRUE: &str = "true";
pub(super) const PROCESS_ID: &str = "process_id";
pub(super) const PROCESS_NAME: &str = "process_name";
