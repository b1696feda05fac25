//! The sentence about a deadlock.

use crate::text::printable;

/// What each thread waits for, and who holds that: the next one, of the last one the first. Each is the text of the
/// thread, and the name of the lock.
pub(super) fn sentence(waiters: &[(String, &str)]) -> String {
    let holders = waiters.iter().cycle().skip(1);
    let waits = waiters
        .iter()
        .zip(holders)
        .map(|((_, lock), (holder, _))| format!("waits for {}, held by {holder}", printable(lock)));
    let waits: Vec<_> = waits.collect();
    let first = waiters.first().map_or("", |(thread, _)| thread);
    format!("Deadlock: {first} {}", waits.join(", which "))
}
