//! When a cached code object has to be compared with the one at its address.

use crate::{
    cache_age::{CacheAge, MAX_AGE_NS},
    layout::Layout,
    maps::{CachedCode, CodeIdentity},
    memory::{UserAddr, UserMemory},
    scratch::Scratch,
};

use super::{code_object::read_identity, symbol::CodeSymbol};

/// Whether a cached code object is still at its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revalidation {
    /// It is recent enough; nothing was read.
    NotDue,
    /// It is, or its address cannot be read now, which does not make it invalid.
    Valid,
    /// Another one is there.
    Replaced,
}

/// Since when a cached code object must have been revalidated to be used at `now_ns` without a
/// revalidation. All times are in nanoseconds of the monotonic clock.
///
/// A code object that is new at `new_code_ns` may have taken the place of any other one: each of them
/// has to be compared once since then. Where one was found at `reused_ns` to have taken the place of
/// another, the process frees code objects, and more may follow unseen: all are compared at each
/// sample, for as long as an entry may otherwise stay unchecked.
#[inline(always)]
#[must_use]
pub const fn trusted_since(now_ns: u64, new_code_ns: u64, reused_ns: u64) -> u64 {
    if now_ns.wrapping_sub(reused_ns) < MAX_AGE_NS {
        now_ns
    } else {
        new_code_ns
    }
}

impl CachedCode {
    /// A code object that was just read.
    #[inline(always)]
    #[must_use]
    pub const fn new(hash: u64, identity: CodeIdentity, now_ns: u64) -> Self {
        Self {
            symbol: hash,
            identity,
            age: CacheAge::new(now_ns),
        }
    }

    /// Its symbol.
    #[inline(always)]
    #[must_use]
    pub const fn code_symbol(&self) -> CodeSymbol {
        CodeSymbol {
            hash: self.symbol,
            first_traceable_bytes: self.identity.first_traceable_bytes,
        }
    }

    /// Compares it with the code object at `code`, if that is due or was not done since
    /// `trusted_since_ns`.
    #[inline(always)]
    pub fn revalidate<M: UserMemory>(
        &mut self,
        memory: &M,
        scratch: &mut Scratch,
        layout: &Layout,
        code: UserAddr,
        now_ns: u64,
        trusted_since_ns: u64,
    ) -> Revalidation {
        if self.age.revalidated_ns >= trusted_since_ns && !self.age.is_due(now_ns) {
            return Revalidation::NotDue;
        }
        if let Ok(identity) = read_identity(memory, scratch, layout, code) {
            if identity != self.identity {
                return Revalidation::Replaced;
            }
            self.age.revalidated_ns = now_ns;
        }
        Revalidation::Valid
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_AGE_NS, trusted_since};

    #[test]
    fn new_code_has_others_compared_once() {
        let new_code_ns = 5 * MAX_AGE_NS;
        let now_ns = new_code_ns + 1_000;
        assert_eq!(trusted_since(now_ns, new_code_ns, 0), new_code_ns);
    }

    #[test]
    fn after_a_reuse_others_are_compared_at_each_sample() {
        let reused_ns = 5 * MAX_AGE_NS;
        let last_ns = reused_ns + MAX_AGE_NS - 1;
        assert_eq!(trusted_since(last_ns, 0, reused_ns), last_ns);
        assert_eq!(trusted_since(last_ns + 1, 0, reused_ns), 0);
    }
}
