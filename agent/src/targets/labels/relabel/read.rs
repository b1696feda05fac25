//! Parses and validates rules.

use std::fmt;

use regex::{Regex, RegexBuilder};
use serde::{
    Deserialize, Deserializer,
    de::{self, Visitor},
};
use thiserror::Error;

use super::rule::{Action, Rule};
use crate::targets::labels::names::is_label_name;

/// Most bytes of a compiled expression, and of its cache.
const MAX_REGEX_BYTES: usize = 1 << 20;

/// Most levels of groups in an expression.
const MAX_REGEX_DEPTH: u32 = 64;

/// The default of Prometheus.
const DEFAULT_SEPARATOR: &str = ";";
const DEFAULT_REGEX: &str = "(.*)";
const DEFAULT_REPLACEMENT: &str = "$1";

/// Why a rule is not valid.
#[derive(Debug, Error)]
pub enum Invalid {
    /// The action does not exist.
    #[error("there is no relabel action `{action}`")]
    Action {
        /// The action.
        action: String,
    },
    /// The expression is not valid, or too large.
    #[error("regex `{regex}` is not a regular expression that can be used: {source}")]
    Regex {
        /// The value.
        regex: String,
        /// The error.
        source: Box<regex::Error>,
    },
    /// The action needs a field.
    #[error("action {action} needs `{field}`")]
    Missing {
        /// The action.
        action: String,
        /// The field.
        field: &'static str,
    },
    /// The action does not use a field.
    #[error("action {action} does not take `{field}`")]
    Useless {
        /// The action.
        action: String,
        /// The field.
        field: &'static str,
    },
    /// The name of a label is not valid.
    #[error("`{name}` in `{field}` is not the name of a label: letters, digits and `_`")]
    Name {
        /// The field.
        field: &'static str,
        /// The value.
        name: String,
    },
}

/// A rule as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Written {
    source_labels: Option<Vec<String>>,
    #[serde(deserialize_with = "scalar")]
    separator: Option<String>,
    #[serde(deserialize_with = "scalar")]
    regex: Option<String>,
    modulus: Option<u64>,
    target_label: Option<String>,
    #[serde(deserialize_with = "scalar")]
    replacement: Option<String>,
    action: Option<String>,
}

impl TryFrom<Written> for Rule {
    type Error = Invalid;

    fn try_from(written: Written) -> Result<Self, Invalid> {
        let name = written.action.as_deref().unwrap_or("replace");
        let reading = Reading {
            action: name.to_lowercase(),
            written: &written,
        };
        let action = reading.action()?;
        Ok(Self {
            action,
            separator: written.separator.unwrap_or(DEFAULT_SEPARATOR.to_owned()),
            source_labels: written.source_labels.unwrap_or_default(),
        })
    }
}

/// A rule during validation.
struct Reading<'a> {
    action: String,
    written: &'a Written,
}

impl Reading<'_> {
    fn action(&self) -> Result<Action, Invalid> {
        Ok(match self.action.as_str() {
            "replace" => Action::Replace {
                regex: self.regex()?,
                target: Self::template("target_label", self.target()?)?,
                replacement: self.replacement().to_owned(),
            },
            "keep" => Action::Keep(self.regex()?),
            "drop" => Action::Drop(self.regex()?),
            "keepequal" => Action::KeepEqual(self.only_target()?),
            "dropequal" => Action::DropEqual(self.only_target()?),
            "hashmod" => Action::HashMod {
                target: name_of_label("target_label", self.target()?)?,
                modulus: match self.written.modulus {
                    None | Some(0) => return Err(self.missing("modulus")),
                    Some(modulus) => modulus,
                },
            },
            "labelmap" => Action::LabelMap {
                regex: self.regex()?,
                replacement: Self::template("replacement", self.replacement())?,
            },
            "labeldrop" => Action::LabelDrop(self.only_regex()?),
            "labelkeep" => Action::LabelKeep(self.only_regex()?),
            "lowercase" => Action::Lowercase(self.target_of_case()?),
            "uppercase" => Action::Uppercase(self.target_of_case()?),
            _ => {
                return Err(Invalid::Action {
                    action: self.action.clone(),
                });
            }
        })
    }

    fn regex(&self) -> Result<Regex, Invalid> {
        let regex = self.written.regex.as_deref().unwrap_or(DEFAULT_REGEX);
        let compile = |text: &str| {
            RegexBuilder::new(text)
                .size_limit(MAX_REGEX_BYTES)
                .dfa_size_limit(MAX_REGEX_BYTES)
                .nest_limit(MAX_REGEX_DEPTH)
                .build()
                .map_err(|source| Invalid::Regex {
                    regex: regex.to_owned(),
                    source: Box::new(source),
                })
        };
        // By itself first: `a)|(?:b` would be valid only together with its anchors.
        compile(regex)?;
        compile(&format!("^(?s:{regex})$"))
    }

    fn replacement(&self) -> &str {
        let replacement = self.written.replacement.as_deref();
        replacement.unwrap_or(DEFAULT_REPLACEMENT)
    }

    fn target(&self) -> Result<&str, Invalid> {
        let target = self.written.target_label.as_deref();
        target
            .filter(|target| !target.is_empty())
            .ok_or_else(|| self.missing("target_label"))
    }

    fn target_of_case(&self) -> Result<String, Invalid> {
        self.without("replacement", self.written.replacement.is_some())?;
        name_of_label("target_label", self.target()?)
    }

    fn only_target(&self) -> Result<String, Invalid> {
        self.without("regex", self.written.regex.is_some())?;
        self.without("modulus", self.written.modulus.is_some())?;
        self.without("separator", self.written.separator.is_some())?;
        self.target_of_case()
    }

    fn only_regex(&self) -> Result<Regex, Invalid> {
        self.without("source_labels", self.written.source_labels.is_some())?;
        self.without("target_label", self.written.target_label.is_some())?;
        self.without("modulus", self.written.modulus.is_some())?;
        self.without("separator", self.written.separator.is_some())?;
        self.without("replacement", self.written.replacement.is_some())?;
        self.regex()
    }

    /// The name of a label, in which groups of the expression may be referred to.
    fn template(field: &'static str, text: &str) -> Result<String, Invalid> {
        // The text of the groups is not known yet; `_` stands for it.
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, reference)) = rest.split_once('$') {
            filled.push_str(before);
            filled.push('_');
            rest = match reference
                .strip_prefix('{')
                .and_then(|it| it.split_once('}'))
            {
                Some((group, after)) if is_word(group) => after,
                _ => {
                    let after = reference.trim_start_matches(is_word_letter);
                    if after.len() == reference.len() {
                        return Err(invalid_name(field, text));
                    }
                    after
                }
            };
        }
        filled.push_str(rest);
        name_of_label(field, &filled)
            .map(|_| text.to_owned())
            .map_err(|_| invalid_name(field, text))
    }

    fn missing(&self, field: &'static str) -> Invalid {
        Invalid::Missing {
            action: self.action.clone(),
            field,
        }
    }

    fn without(&self, field: &'static str, is_written: bool) -> Result<(), Invalid> {
        if is_written {
            return Err(Invalid::Useless {
                action: self.action.clone(),
                field,
            });
        }
        Ok(())
    }
}

fn name_of_label(field: &'static str, name: &str) -> Result<String, Invalid> {
    if is_label_name(name) {
        Ok(name.to_owned())
    } else {
        Err(invalid_name(field, name))
    }
}

fn invalid_name(field: &'static str, name: &str) -> Invalid {
    Invalid::Name {
        field,
        name: name.to_owned(),
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_word_letter)
}

fn is_word_letter(letter: char) -> bool {
    letter == '_' || letter.is_ascii_alphanumeric()
}

/// Accepts `true` and `1` as text, as they are usually written in rules.
fn scalar<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    struct Scalar;

    impl Visitor<'_> for Scalar {
        type Value = String;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a text")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<String, E> {
            Ok(text.to_owned())
        }

        fn visit_bool<E: de::Error>(self, value: bool) -> Result<String, E> {
            Ok(value.to_string())
        }

        fn visit_i64<E: de::Error>(self, number: i64) -> Result<String, E> {
            Ok(number.to_string())
        }

        fn visit_u64<E: de::Error>(self, number: u64) -> Result<String, E> {
            Ok(number.to_string())
        }
    }

    deserializer.deserialize_any(Scalar).map(Some)
}
