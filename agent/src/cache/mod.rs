//! Caches that any room may use.

mod generational;

pub use generational::GenerationalCache;
