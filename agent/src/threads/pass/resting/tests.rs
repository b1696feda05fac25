use std::{collections::BTreeMap, sync::Arc, time::Duration};

use agent_common::{
    record::{Sample, WaitReason},
    visit::ThreadVisit,
};

use super::Passer;
use crate::threads::{
    OutsideProcesses, ProcessLocations, Reads, Settings, WaitRecords,
    gil::GilHolders,
    shared::Shared,
    walker::{Walked, Walker},
};
use crate::workers::Workers;

const TID: u32 = 7;

/// Nanoseconds in the state, and samples.
type Amount = (u64, u64);

/// A thread as passes see it, and what they say of it.
struct Thread {
    passer: Passer,
    visit: ThreadVisit,
    /// The sample of a pass while it rests.
    rest: Option<Sample>,
    /// Passes in which nothing was said of it.
    rested: usize,
    said: BTreeMap<WaitReason, Amount>,
    /// Of passes that have found it running or runnable.
    elsewhere: Amount,
}

impl Thread {
    fn new(may_rest: bool) -> Self {
        let settings = Settings {
            period: Duration::from_millis(10),
            hash_seed: 1,
            with_native: false,
            // Who holds the GIL is then found out in each pass.
            reads: Reads {
                stacks: true,
                gil: !may_rest,
                tasks: false,
            },
            locks: None,
            traced: None,
            records: WaitRecords::default(),
        };
        let shared = Shared::new(
            OutsideProcesses::default().into(),
            ProcessLocations::default(),
            Workers::default(),
            Box::new(drop),
        );
        Self {
            passer: Passer::new(Arc::new(shared), Walker::new(1, false), 0, &settings),
            visit: ThreadVisit {
                bytes: 0,
                tgid: 1,
                tid: TID,
                state: 1,
                on_cpu: 0,
                processor: 0,
                preempted: 0,
                start_time_ns: 3,
                switches: 4,
                run_ns: 0,
                run_delay_ns: 0,
                thread_pointer: 0,
                short_ns: 0,
                left_ns: 0,
                is_traced: 0,
                is_unchanged: 0,
                padding: 0,
            },
            rest: None,
            rested: 0,
            said: BTreeMap::new(),
            elsewhere: (0, 0),
        }
    }

    /// A pass that finds that it has run for so long, and has waited so long for a processor, since the last one.
    fn has_run(&mut self, run_ns: u64, delay_ns: u64, elapsed_ns: u64) {
        self.visit.switches += 1;
        self.visit.run_ns += run_ns;
        self.visit.run_delay_ns += delay_ns;
        self.begin();
        self.pass(Some(self.visit), elapsed_ns);
    }

    /// One that finds that it has waited ever since, now in this state.
    fn has_waited(&mut self, state: u32, elapsed_ns: u64) {
        self.begin();
        self.visit.state = state;
        let head = self.passer.rest((TID, state), 0, elapsed_ns);
        self.pass(head, elapsed_ns);
    }

    fn begin(&mut self) {
        self.passer.pass += 1;
        self.passer.visited = 0;
    }

    fn pass(&mut self, head: Option<ThreadVisit>, elapsed_ns: u64) {
        let is_silent = head.is_none();
        if let Some(head) = head {
            self.passer.meet(&head, 0);
            let known = self.passer.threads.get_mut(&TID).unwrap();
            known.read_switches = head.switches;
            known.stack = Some(Walked::UNPROVED);
            known.reason = WaitReason::SLEEP;
            known.show(&head, elapsed_ns, false);
            let holders = GilHolders::default();
            self.passer.add_sample(&head, &holders, 0, elapsed_ns);
        }
        assert_eq!(self.passer.visited, 1);
        let batch = self.passer.batch.take();
        for tid in batch.rest_changes.ended {
            assert_eq!((tid, self.rest.take().is_some()), (TID, true));
        }
        assert_eq!(self.rest.is_some(), is_silent);
        self.rested += usize::from(is_silent);
        let resting = self.rest.map(|sample| Sample {
            value: elapsed_ns,
            ..sample
        });
        for sample in batch.samples.iter().chain(&resting) {
            let (time, samples) = self.said.entry(sample.wait).or_default();
            (*time, *samples) = (*time + sample.value, *samples + u64::from(sample.count));
        }
        for running in batch.running {
            self.elsewhere.0 += running.elapsed_ns;
            self.elsewhere.1 += 1;
        }
        self.rest = self.rest.or(batch.rest_changes.begun.first().copied());
    }
}

#[test]
fn a_thread_that_rests_has_the_samples_that_it_would_have() {
    let mut rested = 0;
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let [mut resting, mut single] = [true, false].map(Thread::new);
        for _ in 0..200 {
            let elapsed_ns = random.u64(5..30);
            if random.u8(..10) == 0 {
                let [run_ns, delay_ns] = [(); 2].map(|()| random.u64(..60));
                resting.has_run(run_ns, delay_ns, elapsed_ns);
                single.has_run(run_ns, delay_ns, elapsed_ns);
            } else if resting.passer.pass != 0 {
                // It is stopped now and then, and goes on.
                let state = if random.u8(..20) == 0 { 4 } else { 1 };
                resting.has_waited(state, elapsed_ns);
                single.has_waited(state, elapsed_ns);
            }
        }
        assert_eq!(resting.said, single.said, "{seed}");
        assert_eq!(resting.elsewhere, single.elsewhere, "{seed}");
        assert_eq!(single.rested, 0);
        rested += resting.rested;
    }
    assert!(rested > 10_000, "{rested}");
}

#[test]
fn time_in_which_it_waited_for_a_processor_does_not_go_on() {
    let mut thread = Thread::new(true);
    thread.has_run(0, 0, 10);
    thread.has_run(0, 45, 10);
    for _ in 0..100 {
        thread.has_waited(1, 10);
    }
    assert_eq!(thread.said[&WaitReason::RUNNABLE], (40, 4));
    assert_eq!(thread.said[&WaitReason::SLEEP], (980, 98));
    assert!(thread.rested > 90, "{}", thread.rested);
}
