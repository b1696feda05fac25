//! Numbers as Python writes them.

use std::fmt::Write as _;

/// Bits of a digit of an integer.
const DIGIT_BITS: u32 = 30;

/// Decimal places of a part of a number.
const PLACES: usize = 9;

/// An integer by its digits of 30 bits, the lowest first; [`None`] where one is none.
pub(super) fn integer(is_negative: bool, digits: &[u32]) -> Option<String> {
    let top = digits.last().copied().unwrap_or(1);
    if top == 0 || digits.iter().any(|digit| digit >> DIGIT_BITS != 0) {
        return None;
    }
    let base = 10_u64.pow(9);
    let mut parts = vec![0_u64];
    for digit in digits.iter().rev() {
        let mut carry = u64::from(*digit);
        for part in &mut parts {
            let value = (*part << DIGIT_BITS) + carry;
            *part = value % base;
            carry = value / base;
        }
        while carry > 0 {
            parts.push(carry % base);
            carry /= base;
        }
    }
    let mut parts = parts.iter().rev();
    let mut text = String::from(if is_negative { "-" } else { "" });
    text += &parts.next().map_or_else(String::new, u64::to_string);
    for part in parts {
        // Writing to a string cannot fail.
        let _ = write!(text, "{part:0PLACES$}");
    }
    Some(text)
}

/// A number with a fraction: the shortest text that means it, in scientific notation where Python has that.
pub(super) fn float(value: f64) -> String {
    let mut text = part_of_complex(value);
    if value.is_finite() && !text.contains(['.', 'e']) {
        text += ".0";
    }
    text
}

/// A complex number.
pub(super) fn complex(real: f64, imaginary: f64) -> String {
    let tail = part_of_complex(imaginary);
    if real == 0.0 && real.is_sign_positive() {
        return format!("{tail}j");
    }
    let sign = if tail.starts_with('-') { "" } else { "+" };
    format!("({}{sign}{tail}j)", part_of_complex(real))
}

/// The same without `.0`.
fn part_of_complex(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>().unwrap_or(0) {
        -4..16 => value.to_string(),
        exponent => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_have_any_number_of_digits() {
        let text = |digits: &[u32]| integer(false, digits);
        assert_eq!(text(&[]).unwrap(), "0");
        assert_eq!(text(&[7]).unwrap(), "7");
        assert_eq!(integer(true, &[0, 1]).unwrap(), "-1073741824");
        // 2 ** 90
        assert_eq!(text(&[0, 0, 0, 1]).unwrap(), "1237940039285380274899124224");
        assert_eq!(text(&[0xffff_ffff]), None);
        assert_eq!(text(&[1, 0]), None);
    }

    #[test]
    fn floats_are_the_shortest_ones() {
        for (value, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (0.1, "0.1"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e-5, "1.5e-05"),
            (0.0001, "0.0001"),
            (1.797_693_134_862_315_7e308, "1.7976931348623157e+308"),
            (5e-324, "5e-324"),
            (f64::NAN, "nan"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(float(value), expected);
        }
        assert_eq!(complex(0.0, 2.0), "2j");
        assert_eq!(complex(-0.0, 2.0), "(-0+2j)");
        assert_eq!(complex(1.5, -f64::INFINITY), "(1.5-infj)");
    }
}
