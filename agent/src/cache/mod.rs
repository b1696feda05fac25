//! Caches that anyone may use.

pub mod generational;
