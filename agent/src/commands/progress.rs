//! The progress line of a capture.

use std::{
    io::{self, Write as _},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::text::plural;

/// A progress line; cleared when it is finished or dropped.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    total: String,
}

impl Progress {
    /// Starts the line of a capture of this duration.
    #[must_use]
    pub fn new(total: Duration) -> Self {
        // Shows nothing where standard error is not a terminal.
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        // The message is truncated at the width of the terminal.
        let style = ProgressStyle::with_template("{spinner} {wide_msg}")
            .unwrap_or_else(|_| ProgressStyle::default_spinner())
            .tick_chars("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏");
        bar.set_style(style);
        let progress = Self {
            bar,
            total: humantime::format_duration(total).to_string(),
        };
        progress.update(Duration::ZERO, 0);
        progress
    }

    /// Redraws the line.
    pub fn update(&self, elapsed: Duration, samples: u64) {
        self.bar.set_message(format!(
            "{} of {} · {samples} {} · Ctrl-C ends early",
            elapsed_text(elapsed),
            self.total,
            plural(samples, "sample", "samples"),
        ));
        self.bar.tick();
    }

    /// Prints a line above it, or by itself where standard error is not a terminal.
    pub fn say(&self, text: &str) {
        // Standard error may be closed.
        self.bar.suspend(|| writeln!(io::stderr(), "{text}").ok());
    }

    /// Clears the line.
    pub fn finish(self) {
        self.bar.finish_and_clear();
    }
}

/// For example `4.2s` or `1m 04s`.
fn elapsed_text(elapsed: Duration) -> String {
    match elapsed.as_secs() {
        0..60 => format!("{}.{}s", elapsed.as_secs(), elapsed.subsec_millis() / 100),
        seconds => format!("{}m {:02}s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_told_in_seconds() {
        assert_eq!(elapsed_text(Duration::from_millis(4_256)), "4.2s");
        assert_eq!(elapsed_text(Duration::from_secs(64)), "1m 04s");
    }
}
