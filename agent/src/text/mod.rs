//! Text for people: what is safe to print, and what fits.

mod ellipsis;
mod printable;

pub use ellipsis::{shortened, shortened_path};
pub use printable::printable;

/// The word for so many.
#[must_use]
pub fn plural(count: u64, one: &'static str, many: &'static str) -> &'static str {
    if count == 1 { one } else { many }
}
