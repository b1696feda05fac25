//! How busy the subject is, and what that costs, as one line.

use unicode_width::UnicodeWidthStr as _;

use super::{state::State, window::Scope};

/// Columns between two parts.
const GAP: usize = 2;

/// The parts that fit into `width` columns, the most important ones first.
pub(super) fn load_text(state: &State, width: usize) -> String {
    let mut text = String::new();
    for part in parts(state) {
        if text.width() + GAP + part.width() > width {
            continue;
        }
        if !text.is_empty() {
            text.push_str("  ");
        }
        text.push_str(&part);
    }
    text
}

fn parts(state: &State) -> Vec<String> {
    let load = state.load();
    let mut parts = vec![format!("CPU {:.1}%", 100.0 * load.cpus)];
    if let Some(held) = load.gil_held {
        parts.push(format!("GIL held {:.0}%", 100.0 * held));
    }
    if let Some(waiting) = load.waiting {
        let mut kinds = Vec::new();
        if state.subject.has_gil() {
            kinds.push(format!("GIL {:.1}", waiting.for_gil));
        }
        kinds.push(format!("CPU {:.1}", waiting.for_cpu));
        kinds.push(format!("other {:.1}", waiting.otherwise));
        parts.push(format!("wait: {}", kinds.join(" ")));
        if waiting.stopped > 0.0 {
            parts.push(format!("stopped {:.1}", waiting.stopped));
        }
    }
    if load.gc > 0.0 {
        let share = 100.0 * load.gc / load.cpus.max(f64::MIN_POSITIVE);
        parts.push(format!("GC {share:.1}%"));
    }
    if state.lost() > 0 {
        parts.push(format!("{} samples lost", state.lost()));
    }
    if let Some((cost, bytes)) = state.cost() {
        let cost = 100.0 * cost;
        parts.push(format!("agent {cost:.1}%"));
        if state.scope() == Scope::default() {
            parts.push(format!("{:.0} samples/s", load.samples_per_second));
        }
        parts.push(format!("{} MB", bytes >> 20));
    }
    parts
}
