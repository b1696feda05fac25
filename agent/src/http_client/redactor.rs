//! Text of a server, fit to be shown.

use crate::text::printable;

/// Longest text of an answer that is shown, in characters.
const MAX_MESSAGE: usize = 200;

/// Makes what the other side says fit to be shown.
pub(crate) struct Redactor(pub(super) Vec<String>);

impl Redactor {
    /// One short line, without the secrets that were sent.
    pub(crate) fn show(&self, text: &str) -> String {
        let mut text = text.trim().to_owned();
        for secret in self.0.iter().filter(|secret| !secret.is_empty()) {
            text = text.replace(secret, "…");
        }
        let text: String = printable(&text).chars().take(MAX_MESSAGE).collect();
        if text.is_empty() {
            "without a word".to_owned()
        } else {
            text
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_other_side_says_is_one_short_line() {
        let words = Redactor(vec!["hunter2".to_owned(), String::new()]);
        assert_eq!(words.show(" no hunter2\n\x1b[1m! "), "no …\\n\\u{1b}[1m!");
        assert_eq!(words.show(" \r\n"), "without a word");
        let long = words.show(&"hunter2 ".repeat(1_000));
        assert!(long.chars().count() <= MAX_MESSAGE && !long.contains("hunter"));
    }
}
