//! Waiting for the GIL, by who holds it: what each thread does while it keeps others waiting.

use agent_common::record::ProfileKind;

use crate::profile::{
    kind::{Kind, PassSamples, Words},
    model::Profile,
    wait::Wait,
};

/// Elapsed time in which threads wait for the GIL, with the stack of the thread that holds it, whether that
/// runs or waits itself. Where nobody holds it, since the next thread is being woken, with the stack of the
/// one that waits. So its sum is the time of `[waiting: gil]` in elapsed time.
///
/// As in Go's profiles of mutexes, who is to blame has the time that others wait. No collector has a name
/// for it.
///
/// Without a GIL it is the time for which threads are stopped by others, as its markers say.
pub static KIND: Kind = Kind::of_passes(
    ProfileKind::GIL,
    "gil",
    ("gil", "gil_delay"),
    PassSamples::BlockedByGil,
    Words {
        total: "of waiting for the GIL",
        any: "kept others waiting for the GIL",
        none: "kept no thread waiting for the GIL",
    },
);

/// The words of a total of threads that were stopped, and of one that is also of other threads.
const STOPPED_BY_OTHERS: &str = "stopped by others";
const WAITED_OR_STOPPED: &str = "of waiting for the GIL, or stopped by others";

impl Profile {
    /// What the value of all of its samples is, such as `of CPU`.
    #[must_use]
    pub fn total_words(&self) -> &'static str {
        let words = self.kind.words.total;
        if *self.kind != KIND {
            return words;
        }
        let (mut has_waited, mut has_stopped) = (false, false);
        for sample in &self.samples {
            let markers = self.leaf_markers(sample);
            // Where nobody is blamed, it is the stack of the thread that waits. A thread without either keeps one waiting of
            // which no more is known.
            let own_wait = markers.wait.filter(|_| markers.blocks.is_none());
            let is_stopped = markers.stops || own_wait == Some(Wait::StopTheWorld);
            let is_waiting = markers.blocks.is_some() || own_wait == Some(Wait::Gil);
            has_stopped |= is_stopped;
            has_waited |= is_waiting && !is_stopped;
        }
        match (has_stopped, has_waited) {
            (false, _) => words,
            (true, false) => STOPPED_BY_OTHERS,
            (true, true) => WAITED_OR_STOPPED,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{
        fixtures::{example_profile, of_kind, with_waits},
        kinds::wall,
    };

    #[test]
    fn the_words_of_a_total_say_how_threads_were_kept_waiting() {
        let words = |kind, markers: &[(usize, &str)]| {
            of_kind(with_waits(example_profile(""), markers), kind).total_words()
        };
        let blocks = (0, "[blocks: worker]");
        let stops = (1, "[stops: worker]");
        assert_eq!(words(&KIND, &[]), "of waiting for the GIL");
        assert_eq!(words(&KIND, &[blocks]), "of waiting for the GIL");
        assert_eq!(words(&KIND, &[stops]), "stopped by others");
        let stopping = (0, "[waiting: stop-the-world]");
        assert_eq!(words(&KIND, &[stopping, stops]), "stopped by others");
        for waiting in [blocks, (0, "[waiting: gil]")] {
            let either = "of waiting for the GIL, or stopped by others";
            assert_eq!(words(&KIND, &[waiting, stops]), either);
        }
        // What the thread itself waits for that blocks another one.
        let itself = (0, "[waiting: gil]");
        assert_eq!(
            words(&KIND, &[itself, (0, "[stops: worker]")]),
            "stopped by others"
        );
        assert_eq!(words(&wall::KIND, &[stops]), "of elapsed time");
    }
}
