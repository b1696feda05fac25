//! All measurements with one interpreter.
//!
//! Invariant: a failure is recorded, and the next measurement is made.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use xtask::interpreters::Interpreter;

use super::accuracy;
use super::agent::{Capture, Stacks};
use super::budget;
use super::figure::{Figures, Topic};
use super::kernel_cost;
use super::plan::{ACCURACY_RATE_HZ, DEPTH_RATE_HZ, PEER_RATE_HZ, PROFILE_RATE_HZ, Plan};
use super::profiler::Profiler;
use super::scenes;
use super::slowdown::{self, Contender};
use super::windows;
use super::workload::{Kind, Workload, directory};
use crate::commands::observe::stats::float;

/// What is measured with, and the results.
#[derive(Debug)]
pub(super) struct Session<'a> {
    pub(super) agent: &'a Path,
    pub(super) py_spy: Option<&'a Path>,
    pub(super) python: &'a Interpreter,
    pub(super) version: &'a str,
    pub(super) plan: &'a Plan,
    pub(super) figures: Figures,
    pub(super) failures: Vec<String>,
}

impl Session<'_> {
    /// Measures everything that is planned.
    pub(super) fn run(&mut self) {
        let plan = self.plan;
        for &scene in &plan.scenes {
            self.attempt(&scene.name(), |session| {
                let (agent, python) = (session.agent, session.python);
                scenes::measure(agent, python, scene, plan.scene, &mut session.figures)
            });
        }
        if plan.only_scenes {
            return;
        }
        for &kind in &plan.workloads {
            self.attempt(kind.name(), |session| session.workload(kind));
        }
        self.attempt("native frames", Self::native);
        self.attempt("stacks of several depths", Self::depths);
        if plan.many_threads != 0 {
            self.attempt("many waiting threads", Self::many_threads);
        }
        for (profiler, rate_hz) in self.profilers() {
            for sleep_percent in [0, 100] {
                self.attempt("known split of the CPU time", |session| {
                    session.split(&profiler, rate_hz, sleep_percent)
                });
            }
        }
        for &seconds in plan.profile_seconds {
            self.attempt("size of a profile", |session| session.profile(seconds));
        }
    }

    /// Makes one measurement.
    fn attempt(&mut self, what: &str, measure: impl FnOnce(&mut Self) -> Result<()>) {
        eprintln!("Python {}: {what}", self.version);
        if let Err(error) = measure(self) {
            self.fail(what, &error);
        }
    }

    fn fail(&mut self, what: &str, error: &anyhow::Error) {
        let failure = format!("Python {}: {what}: {error:#}", self.version);
        eprintln!("{failure}");
        self.failures.push(failure);
    }

    /// The profilers, with rates at which they are accurate enough.
    fn profilers(&self) -> Vec<(Profiler, u32)> {
        let agent = Profiler::Agent(self.agent.to_owned());
        let py_spy = self.py_spy.map(|path| Profiler::PySpy(path.to_owned()));
        let mut profilers = vec![(agent, ACCURACY_RATE_HZ)];
        profilers.extend(py_spy.map(|py_spy| (py_spy, PEER_RATE_HZ)));
        profilers
    }

    fn workload(&mut self, kind: Kind) -> Result<()> {
        let workload = Workload::start(self.python, kind.name(), None)?;
        for &rate_hz in self.plan.kernel_rates_hz {
            // Rarer samples find less of what they need in the processor's caches.
            let is_judged = kind.has_usual_depth() && rate_hz > PEER_RATE_HZ;
            let budget = is_judged.then(|| budget::kernel_time_us(self.python.minor));
            self.attempt(&format!("{}, {rate_hz} Hz", kind.name()), |session| {
                session.kernel_time(&workload, kind.name(), rate_hz, budget, Stacks::Python)
            });
        }
        self.attempt(&format!("{}, slowdown", kind.name()), |session| {
            session.slowdown(kind, &workload)
        });
        Ok(())
    }

    fn kernel_time(
        &mut self,
        workload: &Workload,
        name: &str,
        rate_hz: u32,
        budget: Option<f64>,
        stacks: Stacks,
    ) -> Result<()> {
        let case = format!("{name}, {rate_hz} Hz");
        let others = kernel_cost::other_run_ns(self.agent, self.python, rate_hz, stacks)?;
        let windows = self.plan.kernel_windows;
        let sampled = kernel_cost::sample(self.agent, workload, rate_hz, windows, others, stacks)?;
        let figures = &mut self.figures;
        figures
            .of(Topic::KernelTime, &case)
            .agent_of(sampled.costs_ns.iter().map(|cost| cost / 1e3))
            .budget = budget;
        let lost = figures.of(Topic::Lost, "in all captures of the above");
        lost.agent = Some(lost.agent.unwrap_or(0.0) + float(sampled.lost));
        lost.budget = Some(budget::LOST);
        if rate_hz >= ACCURACY_RATE_HZ {
            let cpu_seconds = figures.of(Topic::CpuSeconds, name);
            cpu_seconds.agent_worst(sampled.cpu_error);
            cpu_seconds.budget = Some(budget::CPU_SECONDS);
        }
        Ok(())
    }

    fn depths(&mut self) -> Result<()> {
        let plan = self.plan;
        let mut costs_ns = Vec::new();
        // A run that is not for the target does not depend on its stack.
        let mut others = None;
        for &frames in plan.depths {
            let workload = Workload::start(self.python, "deep_single", Some(frames))?;
            let other_run_ns = match others {
                Some(known) => known,
                None => kernel_cost::other_run_ns(
                    self.agent,
                    self.python,
                    DEPTH_RATE_HZ,
                    Stacks::Python,
                )?,
            };
            others = Some(other_run_ns);
            let windows = plan.kernel_windows;
            let sampled = kernel_cost::sample(
                self.agent,
                &workload,
                DEPTH_RATE_HZ,
                windows,
                other_run_ns,
                Stacks::Python,
            )?;
            let case = format!("{frames} {}", if frames == 1 { "frame" } else { "frames" });
            let figure = self.figures.of(Topic::Frames, &case);
            figure.agent_of(sampled.costs_ns.iter().map(|cost| cost / 1e3));
            costs_ns.extend(
                figure
                    .agent
                    .zip(figure.best)
                    .map(|(agent, best)| (f64::from(frames), 1e3 * agent, 1e3 * best)),
            );
        }
        // Where the stack is in more than one piece, each frame may cost something else.
        for pair in costs_ns.windows(2) {
            let [shallow, deep] = [pair[0], pair[1]];
            let frames = deep.0 - shallow.0;
            let case = format!("from {} to {} frames", shallow.0, deep.0);
            let figure = self.figures.of(Topic::FrameTime, &case);
            figure.agent = Some((deep.1 - shallow.1) / frames);
            figure.best = Some((deep.2 - shallow.2) / frames);
        }
        Ok(())
    }

    fn many_threads(&mut self) -> Result<()> {
        let threads = self.plan.many_threads;
        let workload = Workload::start(self.python, "mostly_idle", Some(threads))?;
        let name = format!("{threads} threads wait");
        let budget = Some(budget::kernel_time_us(self.python.minor));
        self.kernel_time(&workload, &name, DEPTH_RATE_HZ, budget, Stacks::Python)
    }

    /// What native frames cost: the same stack with and without them.
    fn native(&mut self) -> Result<()> {
        let workload = Workload::start(self.python, "native_chain", None)?;
        let minor = self.python.minor;
        let cases = [
            (
                "30 Python frames",
                Stacks::Python,
                budget::kernel_time_us(minor),
            ),
            (
                "and 30 native ones",
                Stacks::Whole,
                budget::WHOLE_KERNEL_TIME_US,
            ),
        ];
        for (name, stacks, budget) in cases {
            self.kernel_time(&workload, name, DEPTH_RATE_HZ, Some(budget), stacks)?;
        }
        Ok(())
    }

    fn slowdown(&mut self, kind: Kind, workload: &Workload) -> Result<()> {
        let agent = Profiler::Agent(self.agent.to_owned());
        let contender = |profiler: &Profiler, rate_hz, instead| Contender {
            profiler: profiler.clone(),
            rate_hz,
            instead,
        };
        let rates = self.plan.slowdown_rates_hz;
        let mut contenders: Vec<_> = rates
            .iter()
            .map(|&rate_hz| contender(&agent, rate_hz, None))
            .collect();
        let sleeper = Workload::start(self.python, "asleep", None)?;
        let highest = rates
            .iter()
            .filter(|&&rate_hz| rate_hz > PEER_RATE_HZ)
            .max();
        contenders.extend(highest.map(|&rate| contender(&agent, rate, Some(sleeper.pid()))));
        if let Some(path) = self.py_spy {
            let py_spy = Profiler::PySpy(path.to_owned());
            contenders.push(contender(&py_spy, PEER_RATE_HZ, None));
        }

        let (compared, noise) = slowdown::compare(workload, &contenders, self.plan.slowdown)?;
        for (contender, compared) in contenders.iter().zip(compared) {
            let rate_hz = contender.rate_hz;
            let case = format!("{}, {rate_hz} Hz", kind.name());
            let figures = &mut self.figures;
            match (compared, &contender.profiler) {
                (Ok(compared), _) if contender.instead.is_some() => {
                    windows::of_clock(figures, &case, &compared, noise);
                }
                (Ok(compared), Profiler::Agent(_)) => {
                    windows::of_agent(figures, &case, rate_hz, &compared, noise);
                }
                (Ok(compared), Profiler::PySpy(_)) => {
                    windows::of_py_spy(figures, kind.name(), &case, &compared, noise);
                }
                (Err(error), _) => self.fail(&case, &error),
            }
        }
        Ok(())
    }

    fn split(&mut self, profiler: &Profiler, rate_hz: u32, sleep_percent: u32) -> Result<()> {
        let duration = self.plan.split;
        let error = accuracy::measure(profiler, self.python, sleep_percent, rate_hz, duration)?;
        let name = if sleep_percent == 0 {
            "cpu_split"
        } else {
            "cpu_split, asleep half the time"
        };
        for (topic, value, budget) in [
            (Topic::Split, error.split, budget::SPLIT),
            (Topic::CpuSeconds, error.cpu, budget::CPU_SECONDS),
        ] {
            let figure = self.figures.of(topic, name);
            match profiler {
                Profiler::Agent(_) => figure.agent = Some(value),
                Profiler::PySpy(_) => figure.py_spy = Some(value),
            }
            figure.budget = Some(budget);
        }
        Ok(())
    }

    fn profile(&mut self, seconds: u32) -> Result<()> {
        let workload = Workload::start(self.python, "short_calls", None)?;
        let output = directory()?.join("profile.pb.gz");
        let duration = Duration::from_secs(seconds.into());
        let capture = Capture::start(
            self.agent,
            workload.pid(),
            PROFILE_RATE_HZ,
            duration,
            &output,
            Stacks::Whole,
        )?;
        let map_bytes = capture.map_bytes();
        let ended = capture.finish()?;
        let bytes = fs::metadata(&output)
            .with_context(|| format!("cannot read {}", output.display()))?
            .len();
        let case = format!("{seconds} s");
        let size = self.figures.of(Topic::ProfileSize, &case);
        size.agent = Some(float(bytes) / 1e3);
        size.budget = (seconds >= 60).then_some(budget::PROFILE_KB);
        self.figures.of(Topic::Finish, &case).agent = Some(1e3 * ended.finish.as_secs_f64());
        let maps = self.figures.of(Topic::Maps, "one process");
        maps.agent = Some(float(map_bytes) / 1e6);
        maps.budget = Some(budget::MAPS_MB);
        Ok(())
    }
}
