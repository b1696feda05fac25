//! Lists of words as people write them.

use serde::{Deserialize, Deserializer};

/// A list, `[cpu, wall]`, or a text with commas, `cpu,wall`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Words(pub(super) Vec<String>);

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a list is written as [a, b] or as a,b")]
        enum Written {
            List(Vec<String>),
            Text(String),
        }
        Ok(Self(match Written::deserialize(deserializer)? {
            Written::List(words) => words,
            Written::Text(text) if text.trim().is_empty() => Vec::new(),
            Written::Text(text) => {
                let words = text.split(',').map(str::trim);
                words.map(str::to_owned).collect()
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_may_be_texts_with_commas() {
        let words = |text: &str| serde_yaml_ng::from_str(text).map(|Words(words)| words);
        for text in ["[cpu, wall]", "cpu,wall", "'cpu, wall'", "- cpu\n- wall"] {
            assert_eq!(words(text).unwrap(), ["cpu", "wall"], "{text}");
        }
        for (text, expected) in [
            ("cpu", &["cpu"][..]),
            ("a b", &["a b"]),
            ("''", &[]),
            ("[]", &[]),
        ] {
            assert_eq!(words(text).unwrap(), expected, "{text}");
        }
        // A word that is missing is none that is known.
        assert_eq!(words("cpu,,wall").unwrap(), ["cpu", "", "wall"]);
        let error = words("{cpu: wall}").unwrap_err().to_string();
        assert!(error.contains("[a, b]"), "{error}");
    }
}
