//! A percentage on the command line.

use std::{fmt, str::FromStr};

/// A share of a whole, in hundredths of a percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percent(u32);

impl Percent {
    /// A hundredth.
    pub(super) const ONE: Self = Self(100);

    /// As a part of 1.
    #[must_use]
    pub fn share(self) -> f64 {
        f64::from(self.0) / 1e4
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} %", f64::from(self.0) / 1e2)
    }
}

impl FromStr for Percent {
    type Err = &'static str;

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the number is from 0 to 1,000,000"
    )]
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = text
            .strip_suffix('%')
            .unwrap_or(text)
            .trim_end()
            .parse::<f64>();
        match number {
            Ok(percent) if (0.0..=10_000.0).contains(&percent) => {
                Ok(Self((percent * 100.0).round() as u32))
            }
            _ => Err("it must be a percentage, such as 5% or 0.5%"),
        }
    }
}
