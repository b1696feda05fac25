//! Text shortened to a number of terminal columns.

use std::borrow::Cow;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// The text, or its beginning and an ellipsis, in at most `width` columns.
pub fn shortened(text: &str, width: usize) -> Cow<'_, str> {
    if text.width() <= width {
        return Cow::Borrowed(text);
    }
    let mut used = 1;
    let head = text.chars().take_while(|character| {
        used += character.width().unwrap_or(0);
        used <= width
    });
    Cow::Owned(head.chain(['…']).collect())
}

/// The path, or an ellipsis and as many of its last components as fit into `width` columns; [`None`]
/// if not even the file name fits.
pub fn shortened_path(path: &str, width: usize) -> Option<Cow<'_, str>> {
    if path.width() <= width {
        return Some(Cow::Borrowed(path));
    }
    path.match_indices('/')
        .map(|(start, _)| &path[start..])
        .find(|rest| rest.width() < width)
        .map(|rest| Cow::Owned(format!("…{rest}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(shortened("日本語", 6), "日本語");
        assert_eq!(shortened("日本語", 5), "日本…");
        assert_eq!(shortened("日本語", 4), "日…");
        assert_eq!(shortened("ab", 1), "…");
    }

    #[test]
    fn a_path_loses_whole_folders() {
        assert_eq!(shortened_path("/a/bc/d.py", 10).unwrap(), "/a/bc/d.py");
        assert_eq!(shortened_path("/a/bc/d.py", 9).unwrap(), "…/bc/d.py");
        assert_eq!(shortened_path("/a/bc/d.py", 8).unwrap(), "…/d.py");
        assert_eq!(shortened_path("/a/bc/d.py", 5), None);
        assert_eq!(shortened_path("<string>", 5), None);
    }
}
