//! What programs have written of threads that they have visited.

use agent_common::visit::{RestingVisit, ThreadDetails, ThreadVisit};
use zerocopy::FromBytes as _;

/// What was recorded of a thread.
#[derive(Clone, Copy, Debug)]
pub struct Visit<'a> {
    /// What is recorded of each.
    pub head: ThreadVisit,
    /// What is recorded of one that was not on a processor and whose stack the agent does not have: its
    /// registers, and the addresses of its kernel frames as bytes.
    pub details: Option<(ThreadDetails, &'a [u8])>,
}

/// A thread that was visited.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "each is made when it is looked at, and none is kept"
)]
pub enum Visited<'a> {
    /// One that has waited ever since its stack was read: nothing else is recorded of it.
    Resting {
        /// The thread, in the initial PID namespace.
        tid: u32,
        /// See [`ThreadVisit::state`].
        state: u32,
    },
    /// Any other one.
    Seen(Visit<'a>),
}

impl<'a> Visited<'a> {
    /// All that is recorded, if it is.
    pub(super) fn seen(self) -> Option<Visit<'a>> {
        match self {
            Self::Resting { .. } => None,
            Self::Seen(visit) => Some(visit),
        }
    }
}

/// The visits in what programs have written.
pub(super) fn visits(mut bytes: &[u8]) -> impl Iterator<Item = Visited<'_>> {
    std::iter::from_fn(move || {
        let (resting, _) = RestingVisit::read_from_prefix(bytes).ok()?;
        let (visit, rest) = bytes.split_at_checked(resting.bytes as usize)?;
        bytes = rest;
        let RestingVisit { tid, state, .. } = resting;
        if visit.len() == size_of::<RestingVisit>() {
            return Some(Visited::Resting { tid, state });
        }
        let (head, details) = ThreadVisit::read_from_prefix(visit).ok()?;
        let details = ThreadDetails::read_from_prefix(details).ok();
        Some(Visited::Seen(Visit { head, details }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEN: usize = size_of::<ThreadVisit>();
    const DETAILED: usize = SEEN + size_of::<ThreadDetails>();

    /// A visit of so many bytes.
    fn visit(tid: u32, bytes: usize) -> Vec<u8> {
        let mut visit = vec![0; bytes];
        for (word, value) in [u32::try_from(bytes).unwrap(), tid, 1].iter().enumerate() {
            visit[4 * word..][..4].copy_from_slice(&value.to_ne_bytes());
        }
        visit
    }

    /// Each with its thread, and the bytes of its kernel frames if it has details.
    fn read(bytes: &[u8]) -> Vec<(u32, bool, Option<usize>)> {
        let read = |visited| match visited {
            Visited::Resting { tid, state } => {
                assert_eq!(state, 1);
                (tid, true, None)
            }
            Visited::Seen(Visit { head, details }) => {
                (head.tid, false, details.map(|(_, kernel)| kernel.len()))
            }
        };
        visits(bytes).map(read).collect()
    }

    #[test]
    fn visits_have_the_length_that_they_say() {
        let all = [
            visit(1, 12),
            visit(2, SEEN),
            visit(3, DETAILED),
            visit(4, 12),
            visit(5, DETAILED + 24),
            visit(6, 12),
        ];
        let expected = [
            (1, true, None),
            (2, false, None),
            (3, false, Some(0)),
            (4, true, None),
            (5, false, Some(24)),
            (6, true, None),
        ];
        assert_eq!(read(&all.concat()), expected);
        assert_eq!(read(&[]), []);
        let cut = all.concat();
        assert_eq!(read(&cut[..cut.len() - 1]), expected[..5]);
        assert_eq!(read(&[visit(1, 12), visit(2, 20)].concat()), expected[..1]);
    }
}
