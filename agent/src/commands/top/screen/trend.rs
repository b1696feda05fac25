//! A value over the last windows, as one character for each.

/// From a little to the highest value.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The newest values in `width` columns, the newest one last; `highest` is a full column.
pub(super) fn trend(values: &[u64], highest: u64, width: usize) -> String {
    let newest = &values[values.len().saturating_sub(width)..];
    let bars = newest.iter().map(|value| bar(*value, highest));
    let text: String = bars.collect();
    format!("{text:>width$}")
}

fn bar(value: u64, highest: u64) -> char {
    if value == 0 {
        return ' ';
    }
    // Rounded up, so that a little is seen.
    let steps = u128::from(value) * BARS.len() as u128;
    let step = steps.div_ceil(u128::from(highest.max(1)));
    let step = usize::try_from(step).unwrap_or(BARS.len());
    BARS[step.clamp(1, BARS.len()) - 1]
}

#[cfg(test)]
mod tests {
    use super::trend;

    #[test]
    fn the_newest_values_are_shown_and_a_little_is_seen() {
        assert_eq!(trend(&[9, 0, 1, 4, 8], 8, 4), " ▁▄█");
        assert_eq!(trend(&[1, 1000], 1000, 4), "  ▁█");
        assert_eq!(trend(&[0, 0], 0, 2), "  ");
        assert_eq!(trend(&[u64::MAX], 1, 1), "█");
        assert_eq!(trend(&[], 1, 3), "   ");
    }
}
