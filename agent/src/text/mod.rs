//! Text for people: safe to print, and shortened to a width.

mod causes;
mod ellipsis;
mod printable;

pub use causes::with_causes;
pub use ellipsis::{shortened, shortened_path};
pub use printable::{printable, printable_lines};

/// Singular or plural, by the count.
#[must_use]
pub fn plural(count: u64, one: &'static str, many: &'static str) -> &'static str {
    if count == 1 { one } else { many }
}
