//! Resource attributes of OpenTelemetry in the environment of a program.
//!
//! `OTEL_RESOURCE_ATTRIBUTES` is a list `key=value,key=value` in which keys and values are
//! percent-encoded. As the specification requires, a list with any error is discarded, and
//! an empty variable counts as unset.

use std::collections::BTreeMap;

use thiserror::Error;

/// The variable that names the service.
pub const SERVICE_NAME: &str = "OTEL_SERVICE_NAME";

/// The variable with all attributes.
pub const RESOURCE_ATTRIBUTES: &str = "OTEL_RESOURCE_ATTRIBUTES";

/// Most attributes of a program.
const MAX_ATTRIBUTES: usize = 128;

/// Resource attributes of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes(BTreeMap<String, String>);

/// Why a list of attributes was discarded.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Invalid {
    /// An attribute has no value.
    #[error("attribute {number} of {RESOURCE_ATTRIBUTES} has no `=`")]
    NoValue {
        /// Its position in the list, from 1.
        number: usize,
    },
    /// An attribute has no key.
    #[error("attribute {number} of {RESOURCE_ATTRIBUTES} has no key")]
    NoKey {
        /// Its position in the list, from 1.
        number: usize,
    },
    /// What follows a `%` is not two hexadecimal digits, or not UTF-8.
    #[error("attribute {number} of {RESOURCE_ATTRIBUTES} is not percent-encoded")]
    NotEncoded {
        /// Its position in the list, from 1.
        number: usize,
    },
    /// The list is too long.
    #[error("{RESOURCE_ATTRIBUTES} has more than {MAX_ATTRIBUTES} attributes")]
    TooMany,
}

impl Attributes {
    /// The attributes of both variables; the one for the service name takes precedence.
    #[must_use]
    pub fn new(service_name: Option<&str>, list: Option<&str>) -> Self {
        // A program with an invalid list is still profiled, under another name.
        let mut attributes = list
            .map(Self::parse)
            .and_then(Result::ok)
            .unwrap_or_default();
        let name = service_name.map(str::trim).filter(|name| !name.is_empty());
        if let Some(name) = name {
            attributes
                .0
                .insert("service.name".to_owned(), name.to_owned());
        }
        attributes
    }

    /// Parses a list.
    ///
    /// # Errors
    ///
    /// The first error; errors never contain a value.
    pub fn parse(list: &str) -> Result<Self, Invalid> {
        let mut attributes = BTreeMap::new();
        for (index, attribute) in list.split(',').enumerate() {
            let number = index + 1;
            if attribute.trim().is_empty() {
                continue;
            }
            if attributes.len() >= MAX_ATTRIBUTES {
                return Err(Invalid::TooMany);
            }
            let (key, value) = attribute
                .split_once('=')
                .ok_or(Invalid::NoValue { number })?;
            let decoded = |text: &str| decode(text.trim()).ok_or(Invalid::NotEncoded { number });
            let key = decoded(key)?;
            if key.is_empty() {
                return Err(Invalid::NoKey { number });
            }
            attributes.insert(key, decoded(value)?);
        }
        Ok(Self(attributes))
    }

    /// The value of an attribute, if it is not empty.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0
            .get(key)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }
}

fn decode(text: &str) -> Option<String> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        if byte == b'%' {
            let (digits, after) = after.split_first_chunk::<2>()?;
            let digit = |byte: u8| char::from(byte).to_digit(16);
            let value = digit(digits[0])? << 4 | digit(digits[1])?;
            plain.push(u8::try_from(value).ok()?);
            rest = after;
        } else {
            plain.push(byte);
            rest = after;
        }
    }
    String::from_utf8(plain).ok()
}

#[cfg(test)]
mod tests {
    use super::{Attributes, Invalid};
    use proptest::prelude::{any, prop_assert_eq, proptest};

    #[test]
    fn a_list_is_read() {
        let list = "service.name=shop,service.version=1.2%2C3, deployment.environment.name = t%C3%A9st ,,a==,b=";
        let attributes = Attributes::parse(list).unwrap();
        assert_eq!(attributes.get("service.name"), Some("shop"));
        assert_eq!(attributes.get("service.version"), Some("1.2,3"));
        assert_eq!(attributes.get("deployment.environment.name"), Some("tést"));
        assert_eq!(attributes.get("a"), Some("="));
        assert_eq!(attributes.get("b"), None);
        assert_eq!(Attributes::parse(""), Ok(Attributes::default()));
    }

    #[test]
    fn a_mistake_discards_the_list() {
        for (list, invalid) in [
            ("a=1,b", Invalid::NoValue { number: 2 }),
            ("=1", Invalid::NoKey { number: 1 }),
            ("a=1,b=%", Invalid::NotEncoded { number: 2 }),
            ("a=%4", Invalid::NotEncoded { number: 1 }),
            ("a=%+1", Invalid::NotEncoded { number: 1 }),
            ("a=%ff", Invalid::NotEncoded { number: 1 }),
        ] {
            assert_eq!(Attributes::parse(list), Err(invalid), "{list}");
        }
        let many: Vec<String> = (0..200).map(|index| format!("k{index}=v")).collect();
        assert_eq!(Attributes::parse(&many.join(",")), Err(Invalid::TooMany));
    }

    #[test]
    fn the_variable_for_the_name_comes_first() {
        let name = |own, list| {
            let attributes = Attributes::new(own, list);
            attributes.get("service.name").map(str::to_owned)
        };
        let list = Some("service.name=listed");
        assert_eq!(name(Some("own"), list).as_deref(), Some("own"));
        assert_eq!(name(Some(""), list).as_deref(), Some("listed"));
        assert_eq!(name(None, list).as_deref(), Some("listed"));
        assert_eq!(name(Some("own"), Some("broken")).as_deref(), Some("own"));
        assert_eq!(name(None, Some("service.name=x,broken")), None);
    }

    proptest! {
        #[test]
        fn no_list_makes_it_panic(list in any::<String>()) {
            let _ = Attributes::parse(&list);
        }

        #[test]
        fn what_is_encoded_comes_back(value in any::<String>()) {
            let encoded: Vec<String> = value.bytes().map(|byte| format!("%{byte:02X}")).collect();
            let encoded = encoded.concat();
            let attributes = Attributes::parse(&format!("k={encoded}")).unwrap();
            prop_assert_eq!(attributes.get("k").unwrap_or_default(), value);
        }
    }
}
