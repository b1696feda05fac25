//! Text of a server, safe to show.

use crate::text::printable;

/// Longest text of a response that is shown, in characters.
const MAX_MESSAGE: usize = 200;

/// Makes text of a server safe to show. It has the secrets that were sent.
pub(crate) struct Redactor(pub(super) Vec<String>);

impl Redactor {
    /// One short line, without the secrets.
    pub(crate) fn show(&self, text: &str) -> String {
        let mut text = text.trim().to_owned();
        for secret in self.0.iter().filter(|secret| !secret.is_empty()) {
            text = text.replace(secret, "…");
        }
        let text: String = printable(&text).chars().take(MAX_MESSAGE).collect();
        if text.is_empty() {
            "no message".to_owned()
        } else {
            text
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_server_becomes_one_short_line() {
        let redactor = Redactor(vec!["hunter2".to_owned(), String::new()]);
        assert_eq!(
            redactor.show(" no hunter2\n\x1b[1m! "),
            "no …\\n\\u{1b}[1m!"
        );
        assert_eq!(redactor.show(" \r\n"), "no message");
        let long = redactor.show(&"hunter2 ".repeat(1_000));
        assert!(long.chars().count() <= MAX_MESSAGE && !long.contains("hunter"));
    }
}
