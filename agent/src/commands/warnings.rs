//! Warnings of a command that has the terminal for other things meanwhile: they are printed when it ends.

use std::{
    fmt::{self, Write as _},
    io,
    sync::{Arc, Mutex, PoisonError},
};

use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    Layer,
    filter::filter_fn,
    layer::{Context, SubscriberExt as _},
    util::SubscriberInitExt as _,
};

use crate::text::{plural, printable_lines};

/// Most different warnings that are kept.
const MAX_WARNINGS: usize = 16;

/// The warnings so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Warnings(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    /// Each once, in their order.
    texts: Vec<String>,
    /// How many more there were.
    others: u64,
}

impl Warnings {
    /// Starts to keep them.
    pub(super) fn keep() -> Self {
        let warnings = Self::default();
        let layer = warnings.clone().with_filter(filter_fn(is_warning));
        // Where there is a subscriber already, it has them.
        let _ = tracing_subscriber::registry().with(layer).try_init();
        warnings
    }

    /// Writes them, one to a line.
    pub(super) fn print(&self, output: &mut impl io::Write) {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Standard error may be closed.
        for text in &kept.texts {
            let _ = writeln!(output, "agent: warning: {}", printable_lines(text));
        }
        if kept.others != 0 {
            let warnings = plural(kept.others, "warning", "warnings");
            let _ = writeln!(output, "agent: {} more {warnings}", kept.others);
        }
    }

    fn add(&self, text: String) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.texts.contains(&text) {
            return;
        }
        if kept.texts.len() < MAX_WARNINGS {
            kept.texts.push(text);
        } else {
            kept.others += 1;
        }
    }
}

/// Whether it is a warning or an error of the agent, not of its libraries.
fn is_warning(metadata: &Metadata<'_>) -> bool {
    let is_own = metadata.target().split("::").next() == Some("agent");
    is_own && *metadata.level() <= Level::WARN
}

impl<S: Subscriber> Layer<S> for Warnings {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut text = Text::default();
        event.record(&mut text);
        self.add(text.message + &text.fields);
    }
}

/// A warning as one text: its message and then its fields.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string does not fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " ({name}: {value:?})"),
        };
    }
}

#[cfg(test)]
mod tests {
    use tracing::{error, info, subscriber::with_default, warn};

    use super::*;

    #[test]
    fn each_warning_of_the_agent_is_printed_once_and_without_control_characters() {
        let warnings = Warnings::default();
        let layer = warnings.clone().with_filter(filter_fn(is_warning));
        with_default(tracing_subscriber::registry().with(layer), || {
            info!("nothing");
            warn!(target: "h2", "nothing");
            for path in ["/a", "/b\u{1b}[2J", "/a"] {
                warn!(process = 7, "{path} is left out");
            }
            error!("no ring buffer");
            for nth in 0..20 {
                warn!("{nth}");
            }
        });
        let mut printed = Vec::new();
        warnings.print(&mut printed);
        let printed = String::from_utf8(printed).unwrap();
        let lines: Vec<_> = printed.lines().collect();
        assert_eq!(lines[0], "agent: warning: /a is left out (process: 7)");
        assert!(lines[1].starts_with("agent: warning: /b"), "{printed}");
        assert!(!printed.contains('\u{1b}'), "{printed}");
        assert_eq!(lines[2], "agent: warning: no ring buffer");
        assert_eq!(lines[16..], ["agent: 7 more warnings"]);
    }
}
