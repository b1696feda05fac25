//! Text of a bounded length.

/// Text that ends in an ellipsis where it would be longer.
#[derive(Debug)]
pub(super) struct Output {
    text: String,
    /// Characters for which there is room.
    left: usize,
    is_full: bool,
}

/// A place in an output.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    bytes: usize,
    left: usize,
    is_full: bool,
}

impl Output {
    pub(super) fn new(most: usize) -> Self {
        Self {
            text: String::new(),
            left: most,
            is_full: false,
        }
    }

    pub(super) fn push(&mut self, character: char) {
        if self.is_full {
            return;
        }
        if self.left == 0 {
            self.is_full = true;
            self.text.push('…');
            return;
        }
        self.left -= 1;
        self.text.push(character);
    }

    pub(super) fn push_str(&mut self, text: &str) {
        for character in text.chars() {
            self.push(character);
            if self.is_full {
                return;
            }
        }
    }

    /// Characters for which there is room.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// Whether something was left out.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    pub(super) fn mark(&self) -> Mark {
        Mark {
            bytes: self.text.len(),
            left: self.left,
            is_full: self.is_full,
        }
    }

    /// Takes back all that was written since.
    pub(super) fn reset(&mut self, mark: Mark) {
        self.text.truncate(mark.bytes);
        self.left = mark.left;
        self.is_full = mark.is_full;
    }

    pub(super) fn finish(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_ends_in_an_ellipsis() {
        let mut output = Output::new(4);
        output.push_str("äbc");
        let mark = output.mark();
        output.push_str("de");
        assert!(output.is_full());
        output.reset(mark);
        output.push('d');
        assert!(!output.is_full());
        output.push_str("ef");
        assert_eq!(output.finish(), "äbcd…");
    }
}
