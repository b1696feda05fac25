//! Parses and validates selectors.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _},
};
use serde_yaml_ng::Value;
use thiserror::Error;

use super::{Condition, Selector, pattern::Pattern};
use crate::{process::cgroup::is_whole_unit_name, targets::users};

/// Why a condition is not valid.
#[derive(Debug, Error)]
enum Problem {
    #[error("is empty: it would match every process")]
    Empty,
    #[error(
        "has the user `{name}`, who is not in {}: give the number of the user",
        users::FILE
    )]
    User { name: String },
    #[error("has the control group `{path}`, whose path must start with `/`")]
    Cgroup { path: String },
}

/// Why a selector is not valid, and which of its conditions.
#[derive(Debug, Error)]
#[error("`{list}[{index}]` {problem}")]
pub struct Invalid {
    list: &'static str,
    /// From 0.
    index: usize,
    problem: Problem,
}

/// A selector as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Written {
    include: Vec<WrittenCondition>,
    exclude: Vec<WrittenCondition>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(
    deny_unknown_fields,
    default,
    expecting = "a condition, as in {command: python3}"
)]
struct WrittenCondition {
    pid: OneOrMany<u32>,
    command: OneOrMany<String>,
    user: OneOrMany<User>,
    cgroup: OneOrMany<String>,
    unit: OneOrMany<String>,
    container: OneOrMany<String>,
    pod: OneOrMany<String>,
    namespace: OneOrMany<String>,
}

#[derive(Debug)]
enum OneOrMany<T> {
    One(T),
    Many(Vec<T>),
}

/// The derived one of two variants without tags would not say what is wrong with a value.
impl<'de, T: DeserializeOwned> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = match Value::deserialize(deserializer)? {
            Value::Sequence(many) => {
                let many = many.into_iter().map(T::deserialize);
                many.collect::<Result<_, _>>().map(Self::Many)
            }
            one => T::deserialize(one).map(Self::One),
        };
        read.map_err(D::Error::custom)
    }
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "neither the number nor the name of a user")]
enum User {
    Id(u32),
    Name(String),
}

impl fmt::Display for User {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(formatter),
            Self::Name(name) => name.fmt(formatter),
        }
    }
}

impl<T: fmt::Display> OneOrMany<T> {
    /// As it is written, [`None`] for nothing.
    fn text(&self) -> Option<String> {
        match self {
            Self::One(one) => Some(one.to_string()),
            Self::Many(many) if many.is_empty() => None,
            Self::Many(many) => {
                let all: Vec<_> = many.iter().map(T::to_string).collect();
                Some(format!("[{}]", all.join(", ")))
            }
        }
    }
}

impl<T> Default for OneOrMany<T> {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl<T> OneOrMany<T> {
    fn into_vec(self) -> Vec<T> {
        match self {
            Self::One(one) => vec![one],
            Self::Many(many) => many,
        }
    }
}

impl OneOrMany<String> {
    fn into_patterns(self) -> Vec<Pattern> {
        self.into_vec().iter().map(|it| Pattern::new(it)).collect()
    }
}

impl TryFrom<Written> for Selector {
    type Error = Invalid;

    fn try_from(written: Written) -> Result<Self, Invalid> {
        let read = |list, conditions: Vec<WrittenCondition>| {
            let conditions = conditions.into_iter().enumerate();
            let read = conditions.map(|(index, written)| {
                written.read().map_err(|problem| Invalid {
                    list,
                    index,
                    problem,
                })
            });
            read.collect::<Result<_, _>>()
        };
        Ok(Self {
            include: read("include", written.include)?,
            exclude: read("exclude", written.exclude)?,
        })
    }
}

impl WrittenCondition {
    /// It in one line, as `command: [python3, uwsgi], user: 33`.
    fn text(&self) -> String {
        let keys = [
            ("pid", self.pid.text()),
            ("command", self.command.text()),
            ("user", self.user.text()),
            ("cgroup", self.cgroup.text()),
            ("unit", self.unit.text()),
            ("container", self.container.text()),
            ("pod", self.pod.text()),
            ("namespace", self.namespace.text()),
        ];
        let written = keys.into_iter().filter_map(|(key, values)| {
            let values = values?;
            Some(format!("{key}: {values}"))
        });
        written.collect::<Vec<_>>().join(", ")
    }

    fn read(self) -> Result<Condition, Problem> {
        let text = self.text();
        let users = self.user.into_vec().into_iter().map(user);
        let condition = Condition {
            pids: self.pid.into_vec(),
            commands: commands(&self.command.into_vec()),
            users: users.collect::<Result<_, _>>()?,
            cgroups: self.cgroup.into_vec(),
            units: units(&self.unit.into_vec()),
            containers: self.container.into_patterns(),
            pods: self.pod.into_patterns(),
            namespaces: self.namespace.into_patterns(),
            text,
            has_matched: false,
        };
        let mut paths = condition.cgroups.iter();
        if let Some(path) = paths.find(|path| !path.starts_with('/')) {
            return Err(Problem::Cgroup { path: path.clone() });
        }
        let patterns = [
            &condition.commands,
            &condition.units,
            &condition.containers,
            &condition.pods,
            &condition.namespaces,
        ];
        let says_nothing = patterns.iter().all(|patterns| patterns.is_empty())
            && condition.pids.is_empty()
            && condition.users.is_empty()
            && condition.cgroups.is_empty();
        if says_nothing {
            return Err(Problem::Empty);
        }
        Ok(condition)
    }
}

/// Patterns of names of commands; scripts are called by their names without `.py`.
fn commands(names: &[String]) -> Vec<Pattern> {
    let scripts = names.iter().filter_map(|name| name.strip_suffix(".py"));
    let all = scripts.chain(names.iter().map(String::as_str));
    all.map(Pattern::new).collect()
}

/// Patterns of names of units; one without a suffix is a service.
fn units(names: &[String]) -> Vec<Pattern> {
    let stems = names.iter().filter(|name| !is_whole_unit_name(name));
    let services = stems.map(|name| format!("{name}.service"));
    let all = services.chain(names.iter().cloned());
    all.map(|name| Pattern::new(&name)).collect()
}

fn user(written: User) -> Result<u32, Problem> {
    let name = match written {
        User::Id(id) => return Ok(id),
        User::Name(name) => name,
    };
    if let Ok(id) = name.parse() {
        return Ok(id);
    }
    id_of(&name, &users::read()).ok_or(Problem::User { name })
}

/// The id of a user in a file `passwd`, of lines `NAME:PASSWORD:ID:…`.
fn id_of(name: &str, users: &[u8]) -> Option<u32> {
    users.split(|&byte| byte == b'\n').find_map(|line| {
        let mut fields = line.split(|&byte| byte == b':');
        let is_user = fields.next()? == name.as_bytes();
        let id = str::from_utf8(fields.nth(1)?).ok()?;
        is_user.then(|| id.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::id_of;
    use proptest::prelude::{any, proptest};

    #[test]
    fn users_have_names() {
        let users = b"root:x:0:0:root:/root:/bin/bash\nbroken\nweb:x:33:33::/:/bin/sh\nodd:x:y:";
        assert_eq!(id_of("root", users), Some(0));
        assert_eq!(id_of("web", users), Some(33));
        for name in ["odd", "broken", "we", ""] {
            assert_eq!(id_of(name, users), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn no_file_makes_it_panic(users in any::<Vec<u8>>()) {
            let _ = id_of("", &users);
        }
    }
}
