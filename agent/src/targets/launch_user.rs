//! The user that a program is started as.

use std::str::FromStr;

use super::users;

/// A user and a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchUser {
    /// Its id.
    pub user: u32,
    /// The id of its only group.
    pub group: u32,
    /// Its name, folder and shell, if it is one of those of the host.
    account: Option<Account>,
}

/// What programs expect to find in their variables about their user.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Account {
    name: String,
    home: String,
    shell: String,
}

impl LaunchUser {
    /// The variables that are about the user, as `su` sets them: with those of the agent's user a program would
    /// look for its files where it may not read.
    pub(super) fn variables(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.account.iter().flat_map(|account| {
            [
                ("HOME", &*account.home),
                ("LOGNAME", &*account.name),
                ("SHELL", &*account.shell),
                ("USER", &*account.name),
            ]
        })
    }
}

/// There is no such user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no such user: give a name or an id in {}, or UID:GID", users::FILE)]
pub struct UnknownUser;

impl FromStr for LaunchUser {
    type Err = UnknownUser;

    fn from_str(text: &str) -> Result<Self, UnknownUser> {
        if let Some((user, group)) = text.split_once(':') {
            let id = |text: &str| text.parse().map_err(|_| UnknownUser);
            let (user, group) = (id(user)?, id(group)?);
            let account = None;
            return Ok(Self {
                user,
                group,
                account,
            });
        }
        find(text, &users::read()).ok_or(UnknownUser)
    }
}

/// A user, by name or by id, among lines `NAME:PASSWORD:UID:GID:GECOS:HOME:SHELL`.
fn find(text: &str, users: &[u8]) -> Option<LaunchUser> {
    users.split(|&byte| byte == b'\n').find_map(|line| {
        let line = str::from_utf8(line).ok()?;
        let mut fields = line.split(':');
        let name = fields.next()?;
        let user = fields.nth(1)?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        let is_user = !text.is_empty() && (name == text || text.parse() == Ok(user));
        let account = Account {
            name: name.to_owned(),
            home: fields.nth(1)?.to_owned(),
            // Where it is empty, that of the system.
            shell: Some(fields.next()?)
                .filter(|shell| !shell.is_empty())
                .unwrap_or("/bin/sh")
                .to_owned(),
        };
        is_user.then_some(LaunchUser {
            user,
            group,
            account: Some(account),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_a_name_or_an_id_and_a_group() {
        let users = b"root:x:0:0:root:/root:/bin/bash\nbroken\nweb:x:33:34::/srv/web:\nodd:x:y:z";
        let web = find("web", users).unwrap();
        assert_eq!((web.user, web.group), (33, 34));
        let expected = [
            ("HOME", "/srv/web"),
            ("LOGNAME", "web"),
            ("SHELL", "/bin/sh"),
            ("USER", "web"),
        ];
        assert_eq!(web.variables().collect::<Vec<_>>(), expected);
        assert_eq!(find("33", users), Some(web));
        for text in ["", "odd", "broken", "34", "-1"] {
            assert_eq!(find(text, users), None, "{text}");
        }
        let ids: LaunchUser = "33:34".parse().unwrap();
        assert_eq!((ids.user, ids.group, ids.variables().count()), (33, 34, 0));
        for text in ["33:", ":", "web:web", "1:2:3", "no such user"] {
            assert_eq!(text.parse::<LaunchUser>(), Err(UnknownUser), "{text}");
        }
    }
}
