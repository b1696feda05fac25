//! Text on standard output.
//!
//! Nobody may read all of it: `agent report | head -1` closes the pipe early, and is no failure.

use std::{
    fmt::Display,
    io::{self, BufWriter, ErrorKind, Write},
};

use anyhow::{Context as _, Result};

/// What became of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    /// It was written.
    Written,
    /// Nobody reads standard output any more.
    Closed,
}

/// Writes a text.
///
/// # Errors
///
/// When it cannot be written, for another reason than that nobody reads it.
pub(super) fn print(text: impl Display) -> Result<Delivery> {
    print_by(|output| write!(output, "{text}"))
}

/// Has a text written.
///
/// # Errors
///
/// As [`print`].
pub(super) fn print_by(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<Delivery> {
    let mut output = BufWriter::new(io::stdout().lock());
    let written = write(&mut output).and_then(|()| output.flush());
    if written.is_err() {
        // What is left of it is not tried again.
        let _ = output.into_parts();
    }
    delivery(written).context("cannot write to standard output")
}

/// What became of something, by how writing it ended.
///
/// # Errors
///
/// As [`print`].
pub(super) fn delivery(written: io::Result<()>) -> io::Result<Delivery> {
    match written {
        Ok(()) => Ok(Delivery::Written),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Delivery::Closed),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_closed_pipe_is_no_error() {
        assert_eq!(delivery(Ok(())).unwrap(), Delivery::Written);
        let of = |kind: ErrorKind| delivery(Err(kind.into()));
        assert_eq!(of(ErrorKind::BrokenPipe).unwrap(), Delivery::Closed);
        assert!(of(ErrorKind::StorageFull).is_err());
    }
}
