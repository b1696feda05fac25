//! The Python frames of a stack, consumed in runs.

use agent_common::record::Frame;

use crate::bpf::record::Stack;

/// Python frames of a stack that have not been consumed yet, leaf first.
///
/// Positions count every frame of the walk, including the interpreter's hidden frames and the gap of a
/// truncated stack.
pub(super) struct PythonFrames<'a> {
    frames: &'a [Frame],
    /// Position of the first frame of the gap.
    gap_start: u64,
    /// Position of the first frame after the gap.
    gap_end: u64,
    /// Position of the next frame.
    next: u64,
}

/// What is at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step<'a> {
    /// A frame.
    Frame(&'a Frame),
    /// One or more frames of the gap.
    Gap,
}

impl<'a> PythonFrames<'a> {
    /// All frames of a stack; none without a stack.
    pub(super) fn new(stack: Option<&'a Stack>) -> Self {
        let frames = stack.map_or(&[][..], |stack| &stack.frames);
        let gap = stack.and_then(|stack| stack.gap);
        let gap_start = gap.map_or(frames.len(), |gap| gap.after.min(frames.len())) as u64;
        Self {
            frames,
            gap_start,
            gap_end: gap_start + gap.map_or(0, |gap| u64::from(gap.frames)),
            next: 0,
        }
    }

    /// Whether all frames have been consumed.
    pub(super) fn is_empty(&self) -> bool {
        self.next == self.end()
    }

    /// Consumes the next `frames` frames, or as many as there are.
    pub(super) fn take(&mut self, frames: u64) -> impl Iterator<Item = Step<'a>> + use<'a> {
        let start = self.next;
        let end = start.saturating_add(frames).min(self.end());
        self.next = end;
        let before = self.between(start.min(self.gap_start), end.min(self.gap_start));
        let after = self.between(
            start.max(self.gap_end) - self.gap_frames(),
            end.max(self.gap_end) - self.gap_frames(),
        );
        let has_gap = start.max(self.gap_start) < end.min(self.gap_end);
        before
            .iter()
            .map(Step::Frame)
            .chain(has_gap.then_some(Step::Gap))
            .chain(after.iter().map(Step::Frame))
    }

    /// The position after the last frame.
    fn end(&self) -> u64 {
        self.frames.len() as u64 + self.gap_frames()
    }

    fn gap_frames(&self) -> u64 {
        self.gap_end - self.gap_start
    }

    fn between(&self, start: u64, end: u64) -> &'a [Frame] {
        let index = |position| usize::try_from(position).unwrap_or(usize::MAX);
        self.frames.get(index(start)..index(end)).unwrap_or(&[])
    }
}

#[cfg(test)]
mod tests {
    use agent_common::record::FrameKind;
    use proptest::prelude::*;

    use super::*;
    use crate::bpf::record::Gap;

    fn stack(frames: u64, gap: Option<Gap>) -> Stack {
        let frame = |symbol| Frame {
            symbol,
            instruction_offset: 0,
            kind: FrameKind::PYTHON,
        };
        Stack {
            hash: 1,
            frames: (0..frames).map(frame).collect(),
            gap,
        }
    }

    /// Symbols of the frames consumed, one list for each number; `..` for the gap.
    fn taken(stack: &Stack, numbers: &[u64]) -> Vec<String> {
        let mut rest = PythonFrames::new(Some(stack));
        let text = |step| match step {
            Step::Frame(Frame { symbol, .. }) => symbol.to_string(),
            Step::Gap => "..".to_owned(),
        };
        let pieces = numbers.iter().map(|&number| {
            let piece: Vec<_> = rest.take(number).map(text).collect();
            piece.join(" ")
        });
        pieces.collect()
    }

    #[test]
    fn frames_are_taken_in_order() {
        let stack = stack(5, None);
        assert_eq!(taken(&stack, &[2, 0, 1, 9, 1]), ["0 1", "", "2", "3 4", ""]);
        assert_eq!(taken(&stack, &[u64::MAX]), ["0 1 2 3 4"]);
        assert!(PythonFrames::new(None).is_empty());
    }

    #[test]
    fn frames_of_the_gap_count() {
        let gap = |after, frames| stack(4, Some(Gap { after, frames }));
        assert_eq!(taken(&gap(2, 3), &[9]), ["0 1 .. 2 3"]);
        assert_eq!(taken(&gap(2, 3), &[2, 3, 2]), ["0 1", "..", "2 3"]);
        assert_eq!(
            taken(&gap(2, 3), &[1, 2, 1, 2, 9]),
            ["0", "1 ..", "..", ".. 2", "3"]
        );
        assert_eq!(taken(&gap(0, 1), &[1, 1]), ["..", "0"]);
        assert_eq!(
            taken(&gap(4, u32::MAX), &[4, 1, 9]),
            ["0 1 2 3", "..", ".."]
        );
        // A gap beyond the end of the stack.
        assert_eq!(taken(&gap(9, 1), &[9]), ["0 1 2 3 .."]);
    }

    proptest! {
        #[test]
        fn every_frame_is_taken_once(
            frames in 0_u64..20,
            after in 0_usize..25,
            gap_frames in 0_u32..8,
            numbers in prop::collection::vec(0_u64..9, 0..9),
        ) {
            let stack = stack(frames, Some(Gap { after, frames: gap_frames }));
            let mut rest = PythonFrames::new(Some(&stack));
            let mut symbols = Vec::new();
            for number in numbers.into_iter().chain([u64::MAX]) {
                let piece: Vec<_> = rest.take(number).collect();
                prop_assert!(piece.len() as u64 <= number);
                symbols.extend(piece.into_iter().filter_map(|step| match step {
                    Step::Frame(frame) => Some(frame.symbol),
                    Step::Gap => None,
                }));
            }
            prop_assert!(rest.is_empty());
            prop_assert!(symbols.into_iter().eq(0..frames));
        }
    }
}
