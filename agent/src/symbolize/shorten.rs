//! Shortens names of functions, which may be very long in C++ and Rust.

/// Most bytes of a shortened name.
pub(super) const MAX_BYTES: usize = 1024;

/// Shortens a name to [`MAX_BYTES`] bytes. Template and generic arguments are removed first, the
/// innermost ones before others, because the end of a name is its max specific part.
pub(super) fn shorten(mut name: String) -> String {
    /// Nesting depth of the arguments that are kept in the first attempt.
    const DEEPEST: usize = 5;
    const MARK: char = '…';
    if name.len() <= MAX_BYTES {
        return name;
    }
    let mut shorter = (0..=DEEPEST)
        .rev()
        .map(|depth| without_arguments(&name, depth));
    if let Some(short) = shorter.find(|name| name.len() <= MAX_BYTES) {
        return short;
    }
    name.truncate(boundary(&name, MAX_BYTES - MARK.len_utf8()));
    name.push(MARK);
    name
}

/// A name without the arguments nested deeper than `max_depth`.
fn without_arguments(name: &str, max_depth: usize) -> String {
    let mut short = String::new();
    let mut depth: usize = 0;
    for (at, character) in name.char_indices() {
        // Operators and arrows are not brackets.
        let before = &name[..at];
        let mut operators = ["operator", "operator<", "operator>", "-"].iter();
        let is_bracket = !operators.any(|operator| before.ends_with(operator));
        match character {
            '<' if is_bracket => {
                depth += 1;
                if depth <= max_depth + 1 {
                    short.push('<');
                }
                if depth == max_depth + 1 {
                    short.push('…');
                }
            }
            '>' if is_bracket => {
                if depth <= max_depth + 1 {
                    short.push('>');
                }
                depth = depth.saturating_sub(1);
            }
            _ if depth <= max_depth => short.push(character),
            _ => {}
        }
    }
    short
}

/// The last character boundary within the first `max` bytes.
pub(super) fn boundary(text: &str, max: usize) -> usize {
    let mut offsets = (0..=max.min(text.len())).rev();
    offsets
        .find(|&offset| text.is_char_boundary(offset))
        .unwrap_or(0)
}
