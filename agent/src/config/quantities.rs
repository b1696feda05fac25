//! Durations and sizes as people write them.

use std::time::Duration;

use bytesize::ByteSize;
use serde::{Deserialize, Deserializer, de};

/// A duration: `15s`, `500ms`, `1h30m`; a bare number is seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Time(pub(super) Duration);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a duration is written as 15s, 500ms or 1h30m")]
        enum Written {
            Seconds(u64),
            Text(String),
        }
        let duration = match Written::deserialize(deserializer)? {
            Written::Seconds(seconds) => Some(Duration::from_secs(seconds)),
            Written::Text(text) => humantime::parse_duration(&text).ok(),
        };
        let unreadable = || de::Error::custom("a duration is written as 15s, 500ms or 1h30m");
        duration.map(Self).ok_or_else(unreadable)
    }
}

/// A size in bytes: `256MiB`, `1GB`; a bare number is bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size(pub(super) u64);

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ByteSize::deserialize(deserializer)
            .map(|size| Self(size.as_u64()))
            .map_err(|_| de::Error::custom("a size is written as 256MiB, 1GB or 4096"))
    }
}
