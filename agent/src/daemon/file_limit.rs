//! How many files the agent may have open.

use rustix::process::{Resource, getrlimit, setrlimit};
use tracing::warn;

/// Enough for the executables of a host, sampling events of every CPU and connections.
const WANTED: u64 = 65_536;

/// Raises the soft limit of open files, which is 1,024 in many places, as far as the hard limit allows.
pub(super) fn raise() {
    let mut limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(WANTED, |hard| hard.min(WANTED));
    if limit.current.is_none_or(|soft| soft >= wanted) {
        return;
    }
    limit.current = Some(wanted);
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        warn!("the limit of open files is not raised: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::{WANTED, raise};
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    #[test]
    fn the_soft_limit_is_raised_as_far_as_the_hard_limit_allows() {
        let before = getrlimit(Resource::Nofile);
        let hard = before.maximum.unwrap_or(u64::MAX);
        let low = Rlimit {
            current: Some(hard.min(1024)),
            ..before
        };
        setrlimit(Resource::Nofile, low).unwrap();
        raise();
        let raised = getrlimit(Resource::Nofile);
        assert_eq!(raised.current, Some(hard.min(WANTED)));
        assert_eq!(raised.maximum, before.maximum);
        setrlimit(Resource::Nofile, before).unwrap();
    }
}
