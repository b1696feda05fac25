//! What threads do that stacks do not say: what those wait for that do not run, as samples of passes show it,
//! and whether the interpreter collects garbage. It is a marker as the leaf of the stack, from which the label
//! follows.
//!
//! Invariant: the marker is the one record of it, so that all formats, merged profiles and profiles
//! that were read again have it.

use agent_common::record::WaitReason;

use super::{
    indices::{LocationId, StackId},
    location::FrameKind,
    memory::Memory,
    model::{Profile, Sample},
};

/// Root frame of threads that wait for work.
pub const IDLE_MARKER: &str = "[idle]";

/// Marker above the stack of a thread that collects garbage.
pub const GC_MARKER: &str = "[gc]";

/// Marker above the stack of a thread that keeps another one waiting, which has this name.
#[must_use]
pub fn blocks_marker(thread: &str) -> String {
    format!("[blocks: {}]", thread_name(thread))
}

/// The name of a thread for people; it has none where it has ended before that was read.
#[must_use]
pub fn thread_name(thread: &str) -> &str {
    match thread.trim() {
        "" => "unnamed",
        name => name,
    }
}

/// Marker above the stack of a thread that has stopped another one, which has this name, with all others.
#[must_use]
pub fn stops_marker(thread: &str) -> String {
    format!("[stops: {}]", thread_name(thread))
}

/// Marker above the stack of a thread that waits for the lock with this name, in place of the one of
/// [`Wait::Lock`].
#[must_use]
pub fn lock_marker(lock: &str) -> String {
    format!("[lock: {lock}]")
}

/// Marker above the stack of a thread that releases the lock with this name, for which another one waits.
#[must_use]
pub fn releases_marker(lock: &str) -> String {
    format!("[releases: {lock}]")
}

/// Marker above the stack of a thread that raises an exception of this class.
#[must_use]
pub fn raises_marker(class: &str) -> String {
    format!("[raises: {class}]")
}

/// What a thread does that does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Wait {
    /// It waits for a CPU.
    Runnable,
    /// It waits for the global interpreter lock.
    Gil,
    /// It waits for another lock, a condition or a semaphore.
    Lock,
    /// It waits for the end of a time.
    Sleep,
    /// It waits for one of several descriptors.
    Poll,
    /// It waits for a socket.
    Socket,
    /// It waits for a file.
    File,
    /// It waits for a pipe, a terminal or an event descriptor.
    Pipe,
    /// It waits for a child process.
    Child,
    /// It waits for a page of memory.
    PageFault,
    /// It waits for a completion of `io_uring`.
    IoUring,
    /// It is stopped as all threads of its free-threaded interpreter are, or waits for the others to stop.
    StopTheWorld,
    /// It is stopped by a signal, by a debugger, or frozen, whatever it did before.
    Stopped,
    /// A task awaits something.
    Await,
    /// A task could go on, and waits for its event loop.
    EventLoop,
    /// It waits for something else.
    Other,
}

/// A reason, its number in records, its label and its marker.
type Row = (Wait, WaitReason, &'static str, &'static str);

#[rustfmt::skip]
const ROWS: [Row; 16] = [
    (Wait::Runnable, WaitReason::RUNNABLE, "runnable", "[runnable]"),
    (Wait::Gil, WaitReason::GIL, "gil", "[waiting: gil]"),
    (Wait::Lock, WaitReason::LOCK, "lock", "[waiting: lock]"),
    (Wait::Sleep, WaitReason::SLEEP, "sleep", "[waiting: sleep]"),
    (Wait::Poll, WaitReason::POLL, "poll", "[waiting: poll]"),
    (Wait::Socket, WaitReason::SOCKET, "socket", "[waiting: socket]"),
    (Wait::File, WaitReason::FILE, "file", "[waiting: file]"),
    (Wait::Pipe, WaitReason::PIPE, "pipe", "[waiting: pipe]"),
    (Wait::Child, WaitReason::CHILD, "child", "[waiting: child]"),
    (Wait::PageFault, WaitReason::PAGE_FAULT, "page fault", "[waiting: page fault]"),
    (Wait::IoUring, WaitReason::IO_URING, "io_uring", "[waiting: io_uring]"),
    (Wait::StopTheWorld, WaitReason::STOP_THE_WORLD, "stop-the-world", "[waiting: stop-the-world]"),
    OTHER,
    (Wait::Stopped, WaitReason::STOPPED, "stopped", "[stopped]"),
    (Wait::Await, WaitReason::AWAIT, "await", "[waiting: await]"),
    (Wait::EventLoop, WaitReason::EVENT_LOOP, "event loop", "[waiting: event loop]"),
];

/// Stands for all numbers that are not known too.
const OTHER: Row = (Wait::Other, WaitReason::OTHER, "other", "[waiting: other]");

impl Wait {
    /// From its number in records; [`None`] for a thread that ran. A number that is not known is
    /// [`Self::Other`].
    #[must_use]
    pub fn from_reason(reason: WaitReason) -> Option<Self> {
        if reason == WaitReason::NONE {
            return None;
        }
        let row = ROWS.iter().find(|(_, number, ..)| *number == reason);
        Some(row.unwrap_or(&OTHER).0)
    }

    /// From the name of its marker.
    #[must_use]
    pub fn from_marker(name: &str) -> Option<Self> {
        let row = ROWS.iter().find(|(.., marker)| *marker == name);
        row.map(|(wait, ..)| *wait)
    }

    /// Value of the label of its samples.
    #[must_use]
    pub fn label(self) -> &'static str {
        self.row().2
    }

    /// Name of the marker that is the leaf of its stacks.
    #[must_use]
    pub fn marker(self) -> &'static str {
        self.row().3
    }

    fn row(self) -> &'static Row {
        let row = ROWS.iter().find(|(wait, ..)| *wait == self);
        row.unwrap_or(&OTHER)
    }
}

/// What the markers that are the leaves of a stack say of its thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeafMarkers<'a> {
    /// What it did that did not run.
    pub wait: Option<Wait>,
    /// The name of the lock for which it waited, or that it released if [`wait`](Self::wait) is none.
    pub lock: Option<&'a str>,
    /// The name of the thread that it kept waiting.
    pub blocks: Option<&'a str>,
    /// Whether it kept that waiting because it had stopped it.
    pub stops: bool,
    /// Whether it collected garbage.
    pub collects_garbage: bool,
    /// The memory that it is about.
    pub memory: Option<Memory>,
    /// The class of the exception that it raised.
    pub exception: Option<&'a str>,
    /// How many there are.
    pub count: usize,
}

impl Profile {
    /// What the markers above the stack of a sample say of its thread: nothing of one that ran, or where
    /// the kind does not distinguish it.
    #[must_use]
    pub fn leaf_markers(&self, sample: &Sample) -> LeafMarkers<'_> {
        let StackId(stack) = sample.stack;
        let stack = self.stacks.get(stack as usize);
        self.markers_of(stack.map_or(&[], |stack| stack))
    }

    /// The same of a stack.
    pub(super) fn markers_of(&self, stack: &[LocationId]) -> LeafMarkers<'_> {
        let mut markers = LeafMarkers::default();
        for leaf in stack {
            let Some(line) = self.location(*leaf).lines.first() else {
                break;
            };
            let function = self.function(line.function);
            if function.kind != FrameKind::Marker {
                break;
            }
            if let Some(thread) = blocked_thread(&function.name) {
                markers.blocks = Some(thread);
            } else if let Some(thread) = stopped_thread(&function.name) {
                markers.blocks = Some(thread);
                markers.stops = true;
            } else if let Some(lock) = lock_name(&function.name) {
                markers.lock = Some(lock);
                markers.wait = Some(Wait::Lock);
            } else if let Some(lock) = released_lock(&function.name) {
                markers.lock = Some(lock);
            } else if let Some(class) = raised_class(&function.name) {
                markers.exception = Some(class);
            } else if let Some(wait) = Wait::from_marker(&function.name) {
                markers.wait = Some(wait);
            } else if function.name == GC_MARKER {
                markers.collects_garbage = true;
            } else if let Some(memory) = Memory::from_marker(&function.name) {
                markers.memory = Some(memory);
            } else {
                break;
            }
            markers.count += 1;
        }
        markers
    }

    /// The innermost frame of a sample below the markers and, of a thread that waits, below the functions of the kernel that
    /// have it wait: the one that says where it is.
    #[must_use]
    pub fn leaf_of(&self, sample: &Sample) -> Option<LocationId> {
        let markers = self.leaf_markers(sample);
        let StackId(stack) = sample.stack;
        let stack = self.stacks.get(stack as usize)?.get(markers.count..)?;
        let is_of_kernel = |id: LocationId| {
            let code = self.location(id).code;
            code.is_some_and(|code| self.executable(code.executable).is_kernel())
        };
        let waits = markers.wait.is_some();
        let outside = stack.iter().find(|id| !(waits && is_of_kernel(**id)));
        outside.or_else(|| stack.first()).copied()
    }

    /// What the thread of a sample did that did not run; [`None`] if it ran, or is of a kind that
    /// does not distinguish it.
    #[must_use]
    pub fn wait_of(&self, sample: &Sample) -> Option<Wait> {
        self.leaf_markers(sample).wait
    }
}

/// Whether a marker says what a thread did, not that frames are missing.
#[must_use]
pub fn is_state_marker(marker: &str) -> bool {
    marker == IDLE_MARKER
        || Wait::from_marker(marker).is_some()
        || blocked_thread(marker).is_some()
        || stopped_thread(marker).is_some()
        || lock_name(marker).is_some()
        || released_lock(marker).is_some()
        || raised_class(marker).is_some()
        || Memory::from_marker(marker).is_some()
}

/// Whether a marker stands for missing native frames.
#[must_use]
pub fn is_of_native_frames(marker: &str) -> bool {
    marker.starts_with("[native ")
}

/// The name in a [`lock_marker`].
fn lock_name(marker: &str) -> Option<&str> {
    marker.strip_prefix("[lock: ")?.strip_suffix(']')
}

/// The name in a [`releases_marker`].
fn released_lock(marker: &str) -> Option<&str> {
    marker.strip_prefix("[releases: ")?.strip_suffix(']')
}

/// The class in a [`raises_marker`].
fn raised_class(marker: &str) -> Option<&str> {
    marker.strip_prefix("[raises: ")?.strip_suffix(']')
}

/// The name in a [`blocks_marker`].
fn blocked_thread(marker: &str) -> Option<&str> {
    marker.strip_prefix("[blocks: ")?.strip_suffix(']')
}

/// The name in a [`stops_marker`].
fn stopped_thread(marker: &str) -> Option<&str> {
    marker.strip_prefix("[stops: ")?.strip_suffix(']')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::fixtures::{example_profile, with_waits};

    #[test]
    fn each_reason_has_a_label_and_a_marker_of_its_own() {
        for (number, (wait, reason, label, marker)) in (1..).zip(ROWS) {
            assert_eq!(reason, WaitReason(number));
            assert_eq!(Wait::from_reason(reason), Some(wait));
            assert_eq!(Wait::from_marker(marker), Some(wait));
            assert_eq!((wait.label(), wait.marker()), (label, marker));
            let is_waiting = marker == format!("[waiting: {label}]");
            assert!(is_waiting || marker == format!("[{label}]"), "{marker}");
        }
    }

    #[test]
    fn both_markers_of_a_leaf_are_read() {
        let waits = [
            (0, "[waiting: lock]"),
            (0, "[blocks: a [b]]"),
            (1, "[runnable]"),
            (2, "[stack lost]"),
            (3, "[gc]"),
            (4, "[lock: Pool.jobs (Queue at 0x7f00)]"),
            (5, "[releases: Pool.jobs (Queue at 0x7f00)]"),
            (6, "[anonymous memory]"),
            (7, "[raises: shop.OutOfStock]"),
            (8, "[stops: worker]"),
        ];
        let profile = with_waits(example_profile(""), &waits);
        let markers = |sample| profile.leaf_markers(&profile.samples[sample]);
        let both = LeafMarkers {
            wait: Some(Wait::Lock),
            lock: None,
            blocks: Some("a [b]"),
            stops: false,
            collects_garbage: false,
            memory: None,
            exception: None,
            count: 2,
        };
        assert_eq!(markers(0), both);
        assert_eq!(markers(1).wait, Some(Wait::Runnable));
        assert_eq!(markers(2), LeafMarkers::default());
        assert!(markers(3).collects_garbage);
        assert_eq!(markers(3).count, 1);
        assert_eq!(markers(6).memory, Some(Memory::Anonymous));
        assert_eq!(markers(7).exception, Some("shop.OutOfStock"));
        assert_eq!(
            (markers(8).blocks, markers(8).stops),
            (Some("worker"), true)
        );
        let lock = (markers(4).lock, markers(4).wait);
        assert_eq!(
            lock,
            (Some("Pool.jobs (Queue at 0x7f00)"), Some(Wait::Lock))
        );
        assert_eq!(lock_marker("a [b]"), "[lock: a [b]]");
        let released = (markers(5).lock, markers(5).wait);
        assert_eq!(released, (Some("Pool.jobs (Queue at 0x7f00)"), None));
        assert_eq!(releases_marker("a [b]"), "[releases: a [b]]");
        assert_eq!(blocks_marker("a [b]"), "[blocks: a [b]]");
        assert_eq!(blocks_marker(""), "[blocks: unnamed]");
        assert_eq!(stops_marker("a [b]"), "[stops: a [b]]");
        for (marker, is_state) in [
            ("[blocks: worker]", true),
            ("[stops: worker]", true),
            ("[lock: Lock at 0x7f00]", true),
            ("[releases: Lock at 0x7f00]", true),
            ("[raises: ValueError]", true),
            ("[idle]", true),
            ("[waiting: gil]", true),
            ("[stack lost]", false),
        ] {
            assert_eq!(is_state_marker(marker), is_state, "{marker}");
        }
    }

    #[test]
    fn a_thread_waits_in_its_own_function_not_in_that_of_the_kernel() {
        let profile = example_profile("");
        let kind_of_leaf = |profile: &Profile, sample: usize| {
            let leaf = profile.leaf_of(&profile.samples[sample]).unwrap();
            let line = profile.location(leaf).lines.first();
            line.map(|line| profile.function(line.function).kind)
        };
        let of_kernel = Some(FrameKind::Kernel);
        let mut samples = 0..profile.samples.len();
        let sample = samples
            .find(|it| kind_of_leaf(&profile, *it) == of_kernel)
            .unwrap();
        let waits = with_waits(profile, &[(sample, "[waiting: file]")]);
        assert_eq!(kind_of_leaf(&waits, sample), Some(FrameKind::Native));
    }

    #[test]
    fn a_thread_that_runs_has_no_reason_and_an_unknown_reason_is_other() {
        assert_eq!(Wait::from_reason(WaitReason::NONE), None);
        assert_eq!(Wait::from_reason(WaitReason(999)), Some(Wait::Other));
        assert_eq!(Wait::from_marker("[stack lost]"), None);
    }
}
