//! Parses and judges what `xtask/vm/check` prints in the guest.

use anyhow::{Context as _, Result, bail};

/// The workload's functions, outermost first.
const CHAIN: [&str; 3] = ["outermost_call", "middle_call", "innermost_call"];

/// What stacks have whose frames are not all there.
const INCOMPLETE: [&str; 2] = ["[incomplete", "[native frames unknown"];

/// For how long the agent samples, in seconds.
const DURATION_SECONDS: f64 = 3.0;

/// The least number of samples: a tenth of what a real processor would give, because an emulated one
/// does not always run.
const MINIMUM_SAMPLES: u64 = 30;

/// The output of one check.
#[derive(Debug, PartialEq)]
pub(super) struct Report<'output> {
    /// What the agent wrote to its standard error.
    pub(super) messages: &'output str,
    /// How long it ran, by the guest's clock.
    pub(super) seconds: f64,
    /// The profile: a stack and a count per line.
    folded: &'output str,
}

impl<'output> Report<'output> {
    /// Parses it; [`None`] if the agent did not end.
    pub(super) fn parse(output: &'output str) -> Option<Self> {
        let marker = "agent ended with ";
        let at = output
            .match_indices(marker)
            .map(|(at, _)| at)
            .find(|&at| at == 0 || output[..at].ends_with('\n'))?;
        let (line, folded) = output[at..].split_once('\n')?;
        let (begin, end) = line.split_once(", from ")?.1.split_once(" to ")?;
        let seconds = end.trim().parse::<f64>().ok()? - begin.parse::<f64>().ok()?;
        Some(Self {
            messages: &output[..at],
            seconds,
            folded,
        })
    }

    /// A line to print when the profile shows the workload.
    pub(super) fn judge(&self) -> Result<String> {
        let mut all = 0_u64;
        let mut in_chain = 0_u64;
        let mut whole = 0_u64;
        for line in self
            .folded
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
        {
            let (stack, count) = line
                .rsplit_once(' ')
                .and_then(|(stack, count)| Some((stack, count.parse::<u64>().ok()?)))
                .with_context(|| format!("`{line}` is not a folded stack"))?;
            all += count;
            if has_chain(stack) {
                in_chain += count;
            }
            if !INCOMPLETE.iter().any(|marker| stack.contains(marker)) {
                whole += count;
            }
        }
        if all < MINIMUM_SAMPLES {
            bail!("only {all} samples:\n{}{}", self.messages, self.folded);
        }
        if in_chain * 10 < all * 9 {
            bail!(
                "only {in_chain} of {all} samples show {}:\n{}",
                CHAIN.join(" calling "),
                self.folded
            );
        }
        if whole * 20 < all * 19 {
            bail!("only {whole} of {all} stacks are whole:\n{}", self.folded);
        }
        Ok(format!(
            "{in_chain} of {all} samples show the workload's calls, {whole} stacks are whole; loading and writing took \
             {:.2} s besides the {DURATION_SECONDS} s of sampling",
            self.seconds - DURATION_SECONDS
        ))
    }
}

/// Whether the workload's functions appear in `stack` in their order.
fn has_chain(stack: &str) -> bool {
    let mut rest = stack;
    CHAIN.iter().all(|name| match rest.split_once(name) {
        Some((_, after)) => {
            rest = after;
            true
        }
        None => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "\
loaded
agent ended with 0, from 7.10 to 10.60
python3;<module>;outermost_call;middle_call;innermost_call 40
python3;<module>;outermost_call;middle_call 1
python3;<module>;outermost_call;middle_call;innermost_call;asm_interrupt 2
";

    #[test]
    fn a_profile_of_the_workload_is_good() {
        let report = Report::parse(GOOD).unwrap();
        assert_eq!(report.messages, "loaded\n");
        let summary = report.judge().unwrap();
        assert!(summary.starts_with("42 of 43 samples"), "{summary}");
        assert!(summary.contains("43 stacks are whole"), "{summary}");
        assert!(summary.contains("took 0.50 s"), "{summary}");
    }

    #[test]
    fn stacks_without_native_frames_are_not_good() {
        let chain = "outermost_call;middle_call;innermost_call 40";
        let unknown = "[native frames unknown: the stack was not in memory]";
        let output = format!("agent ended with 0, from 1.0 to 4.0\n{unknown};{chain}\n");
        let error = Report::parse(&output).unwrap().judge().unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("only 0 of 40 stacks are whole")
        );
    }

    #[test]
    fn output_that_was_cut_short_is_no_report() {
        assert_eq!(Report::parse(""), None);
        assert_eq!(Report::parse("loaded\nagent ended with 0, from 7"), None);
    }

    #[test]
    fn few_samples_or_another_order_are_not_good() {
        let judge = |folded: &str| {
            let output = format!("agent ended with 0, from 1.0 to 4.0\n{folded}");
            Report::parse(&output)
                .unwrap()
                .judge()
                .unwrap_err()
                .to_string()
        };
        assert!(judge("").starts_with("only 0 samples"));
        assert!(judge("outermost_call;middle_call;innermost_call 29").starts_with("only 29"));
        assert!(judge("innermost_call;middle_call;outermost_call 99").starts_with("only 0 of 99"));
        assert!(judge("no count").starts_with("`no count`"));
    }
}
