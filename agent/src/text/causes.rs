//! An error with its causes.

/// The error, and those of its causes that its own text does not have: `cannot read the file: it is a folder`.
#[must_use]
pub fn with_causes(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io;

    use anyhow::Context as _;

    use super::with_causes;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot read 'x' ({source}): name another file")]
    struct Unreadable {
        source: io::Error,
    }

    #[test]
    fn a_cause_that_the_error_names_is_not_repeated() {
        let source = io::Error::other("it is a folder");
        let error = Err::<(), _>(Unreadable { source });
        let error = error.context("no profile").unwrap_err();
        assert_eq!(
            with_causes(&error),
            "no profile: cannot read 'x' (it is a folder): name another file"
        );
    }
}
