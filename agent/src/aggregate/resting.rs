//! Threads of which each pass over the threads finds the same: they are counted when that ends, or a window does.
//!
//! Invariant: time and number of the samples are those of the passes, whenever they are counted.

use agent_common::record::Sample;
use foldhash::HashMap;

/// Threads that rest, and the passes so far.
#[derive(Debug, Default)]
pub(super) struct Resting {
    /// By thread id, in the initial PID namespace.
    threads: HashMap<u32, Rest>,
    /// How many passes there were.
    passes: u64,
    /// The time that they stand for, in nanoseconds.
    elapsed_ns: u64,
    /// Samples of the threads that are not counted yet.
    uncounted: u64,
}

/// A thread that rests.
#[derive(Debug)]
struct Rest {
    /// Its sample in a pass, but for when, and for how long.
    sample: Sample,
    /// [`Resting::passes`] and [`Resting::elapsed_ns`] up to which it is counted.
    passes: u64,
    elapsed_ns: u64,
}

impl Rest {
    /// The sample of all passes that it is not counted in, if there are any.
    fn take(&mut self, passes: u64, elapsed_ns: u64) -> Option<Sample> {
        let count = passes - self.passes;
        let value = elapsed_ns - self.elapsed_ns;
        (self.passes, self.elapsed_ns) = (passes, elapsed_ns);
        (count != 0).then(|| Sample {
            value,
            count: u32::try_from(count).unwrap_or(u32::MAX),
            ..self.sample
        })
    }
}

impl Resting {
    /// A thread rests: this is its sample in each pass from now on. Returns what is to be counted of an earlier rest.
    pub(super) fn begin(&mut self, sample: Sample) -> Option<Sample> {
        let earlier = self.end(sample.tid);
        let rest = Rest {
            sample,
            passes: self.passes,
            elapsed_ns: self.elapsed_ns,
        };
        self.threads.insert(sample.tid, rest);
        earlier
    }

    /// There was a pass, which stands for so many nanoseconds.
    pub(super) fn pass(&mut self, elapsed_ns: u64) {
        self.passes += 1;
        self.elapsed_ns = self.elapsed_ns.saturating_add(elapsed_ns);
        self.uncounted = self.uncounted.saturating_add(self.threads.len() as u64);
    }

    /// A thread does not rest any more, or has ended. Returns what is to be counted of it.
    pub(super) fn end(&mut self, tid: u32) -> Option<Sample> {
        let mut rest = self.threads.remove(&tid)?;
        let sample = rest.take(self.passes, self.elapsed_ns);
        let count = sample.map_or(0, |sample| u64::from(sample.count));
        self.uncounted = self.uncounted.saturating_sub(count);
        sample
    }

    /// Passes to `count` all that is to be counted; the threads go on resting.
    pub(super) fn count(&mut self, mut count: impl FnMut(&Sample)) {
        for rest in self.threads.values_mut() {
            if let Some(sample) = rest.take(self.passes, self.elapsed_ns) {
                count(&sample);
            }
        }
        self.uncounted = 0;
    }

    /// Forgets all threads; returns those that are to be counted.
    pub(super) fn end_all(&mut self) -> Vec<Sample> {
        let mut samples = Vec::new();
        self.count(|sample| samples.push(*sample));
        self.threads.clear();
        samples
    }

    /// How many samples are to be counted.
    pub(super) fn uncounted(&self) -> u64 {
        self.uncounted
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::FromZeros as _;

    use super::*;

    fn sample(tid: u32) -> Sample {
        Sample {
            tid,
            ..Sample::new_zeroed()
        }
    }

    fn amount(sample: Option<Sample>) -> Option<(u32, u64)> {
        sample.map(|sample| (sample.count, sample.value))
    }

    #[test]
    fn a_thread_has_the_time_of_the_passes_in_which_it_rests() {
        let mut resting = Resting::default();
        resting.pass(1000);
        assert!(resting.begin(sample(1)).is_none());
        resting.pass(50);
        resting.begin(sample(2));
        resting.pass(70);
        assert_eq!(resting.uncounted(), 3);
        assert_eq!(amount(resting.end(1)), Some((2, 120)));
        assert_eq!(amount(resting.end(1)), None);
        assert_eq!(resting.uncounted(), 1);
        resting.pass(30);
        let mut counted = Vec::new();
        resting.count(|sample| counted.push((sample.tid, sample.count, sample.value)));
        assert_eq!(counted, [(2, 2, 100)]);
        assert_eq!(resting.uncounted(), 0);
        resting.count(|sample| panic!("{sample:?}"));
        resting.pass(5);
        assert_eq!(amount(resting.end(2)), Some((1, 5)));
    }

    #[test]
    fn a_thread_that_rests_elsewhere_has_both() {
        let mut resting = Resting::default();
        resting.begin(sample(1));
        resting.pass(10);
        assert_eq!(amount(resting.begin(sample(1))), Some((1, 10)));
        resting.pass(20);
        let all: Vec<_> = resting
            .end_all()
            .into_iter()
            .map(|it| amount(Some(it)))
            .collect();
        assert_eq!(all, [Some((1, 20))]);
        resting.pass(40);
        assert_eq!((resting.uncounted(), resting.end_all().len()), (0, 0));
    }
}
