//! The user that a program is started as.

use std::{fs::File, io::Read as _, str::FromStr};

/// Users and their groups.
const USERS: &str = "/etc/passwd";

/// Most bytes of it that are read.
const MAX_USERS_BYTES: u64 = 16 << 20;

/// A user and a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchUser {
    /// Its id.
    pub user: u32,
    /// The id of its only group.
    pub group: u32,
}

/// There is no such user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no such user: give a name or an id in {USERS}, or UID:GID")]
pub struct UnknownUser;

impl FromStr for LaunchUser {
    type Err = UnknownUser;

    fn from_str(text: &str) -> Result<Self, UnknownUser> {
        if let Some((user, group)) = text.split_once(':') {
            let id = |text: &str| text.parse().map_err(|_| UnknownUser);
            let (user, group) = (id(user)?, id(group)?);
            return Ok(Self { user, group });
        }
        let mut users = Vec::new();
        // Without the file there are only ids.
        let _ =
            File::open(USERS).and_then(|file| file.take(MAX_USERS_BYTES).read_to_end(&mut users));
        find(text, &users).ok_or(UnknownUser)
    }
}

/// A user, by name or by id, among lines `NAME:PASSWORD:UID:GID:…`.
fn find(text: &str, users: &[u8]) -> Option<LaunchUser> {
    users.split(|&byte| byte == b'\n').find_map(|line| {
        let line = str::from_utf8(line).ok()?;
        let mut fields = line.split(':');
        let name = fields.next()?;
        let user = fields.nth(1)?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        let is_user = !text.is_empty() && (name == text || text.parse() == Ok(user));
        is_user.then_some(LaunchUser { user, group })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_a_name_or_an_id_and_a_group() {
        let users = b"root:x:0:0:root:/root:/bin/bash\nbroken\nweb:x:33:34::/:/bin/sh\nodd:x:y:z";
        let web = LaunchUser {
            user: 33,
            group: 34,
        };
        assert_eq!(find("web", users), Some(web));
        assert_eq!(find("33", users), Some(web));
        for text in ["", "odd", "broken", "34", "-1"] {
            assert_eq!(find(text, users), None, "{text}");
        }
        assert_eq!("33:34".parse(), Ok(web));
        for text in ["33:", ":", "web:web", "1:2:3", "no such user"] {
            assert_eq!(text.parse::<LaunchUser>(), Err(UnknownUser), "{text}");
        }
    }
}
