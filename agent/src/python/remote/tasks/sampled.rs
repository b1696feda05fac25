//! The stacks of some of the tasks, chosen at random, as samples have them.
//!
//! ```text
//! lists ─► some of the tasks ─► a look at each ─► a second look ─► the part of the stack that both have seen
//! ```
//!
//! Invariants: each task that was chosen has a stack, also if it ends before that is read, so that the chance to be seen is
//! the time for which a task is there; what it does is what the first look has seen; no more tasks are read than were chosen.

use std::{collections::HashMap, time::Instant};

use agent_common::memory::{UserAddr, UserMemory};

use super::{
    super::{Target, structure::Structure},
    TaskLocation,
    error::TasksError,
    list::{Keep, Listed, Lists},
    reader::{Reader, Thread},
    stack::{Activity, Link, Stack},
};
use crate::python::remote::list::ThreadStates;

/// `PENDING`: the state of a future without a result.
const PENDING: u32 = 0;

/// Stacks of tasks of a process.
#[derive(Clone, Debug, Default)]
pub struct SampledTasks {
    /// Those of the tasks that were chosen, without those that no thread can ever run again.
    pub stacks: Vec<TaskStack>,
    /// For how many tasks each stands.
    pub weight: f64,
    /// Whether there are more tasks than could be found in time.
    pub is_cut: bool,
}

/// The stack of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskStack {
    /// The address of the task; [`None`] where it has ended meanwhile.
    pub address: Option<UserAddr>,
    /// The state of the thread whose loop runs it, else of the one that has created it.
    pub thread: UserAddr,
    /// The function that runs or waits, then those that await it; [`None`] where none of them is known.
    pub frames: Option<Vec<TaskFrame>>,
    /// Whether functions are missing before the first one.
    pub is_cut: bool,
    /// What it does.
    pub activity: TaskActivity,
}

/// A function of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskFrame {
    /// The address of its code object.
    pub code: UserAddr,
    /// Bytes from the start of its bytecode; -1 (as `u32`) where that is not known.
    pub instruction_offset: u32,
    /// Whether it is a coroutine.
    pub is_coroutine: bool,
}

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskActivity {
    /// It runs on its thread, or this is not known.
    Runs,
    /// It could run, and waits until its loop comes to it.
    IsReady,
    /// It awaits something.
    Awaits,
}

/// Reads stacks of tasks.
pub struct Sampler<'a, M> {
    reader: Reader<'a, M>,
    states: Vec<ThreadStates>,
}

/// Tasks that were chosen.
pub struct Chosen {
    tasks: Vec<Listed>,
    /// All that were found.
    count: u64,
    is_cut: bool,
    loops: HashMap<u64, Thread>,
}

impl Chosen {
    /// The addresses of the tasks.
    pub fn addresses(&self) -> impl Iterator<Item = UserAddr> {
        self.tasks.iter().map(|listed| listed.address)
    }
}

/// Tasks that were looked at.
pub struct Looked {
    tasks: Vec<(Listed, Option<Look>)>,
    weight: f64,
    is_cut: bool,
    loops: HashMap<u64, Thread>,
}

/// What a task is at an instant.
struct Look {
    coroutine: u64,
    thread: Option<Thread>,
    activity: TaskActivity,
    /// [`None`] where it cannot be read.
    stack: Option<Stack>,
}

impl<'a, M: UserMemory> Sampler<'a, M> {
    /// One for a process.
    ///
    /// # Errors
    ///
    /// When the offsets of the interpreter or the list of its threads cannot be read.
    pub fn new(memory: &'a M, target: &Target, location: TaskLocation) -> Result<Self, TasksError> {
        let TaskLocation { offsets, facts } = location;
        let (reader, states) = Reader::open(memory, target, offsets, facts)?;
        Ok(Self { reader, states })
    }

    /// Chooses at random `most` of the tasks that are found until `deadline`. `refresh` has the memory at some addresses
    /// read again, for what is read from copies.
    pub fn choose(
        &mut self,
        most: usize,
        deadline: Instant,
        refresh: impl Fn(&[UserAddr]),
    ) -> Chosen {
        let lists = Lists::new(Keep::Random, most, deadline);
        let lists = self.reader.fill(lists, &self.states, refresh);
        let mut chosen = Chosen {
            count: lists.count(),
            is_cut: lists.is_cut,
            loops: self.reader.loops(),
            tasks: lists.tasks,
        };
        // Where there is no time for all, any of them are left out.
        fastrand::shuffle(&mut chosen.tasks);
        chosen
    }

    /// Looks at those tasks for which there is time until `deadline`.
    pub fn look(&mut self, chosen: Chosen, deadline: Instant) -> Looked {
        let mut tasks = Vec::with_capacity(chosen.tasks.len());
        for listed in chosen.tasks {
            // One of them always has a look, which stands for all.
            if !tasks.is_empty() && Instant::now() >= deadline {
                break;
            }
            tasks.push((listed, self.reader.look(listed, &chosen.loops)));
        }
        Looked {
            weight: number(chosen.count) / number(tasks.len() as u64).max(1.0),
            is_cut: chosen.is_cut,
            loops: chosen.loops,
            tasks,
        }
    }

    /// The stacks of the tasks that were looked at, as far as a second look finds the same before `deadline`.
    pub fn prove(&mut self, looked: Looked, deadline: Instant) -> SampledTasks {
        let mut sampled = SampledTasks {
            weight: looked.weight,
            is_cut: looked.is_cut,
            ..SampledTasks::default()
        };
        for (listed, first) in looked.tasks {
            let has_time = Instant::now() < deadline;
            let second = has_time.then(|| self.reader.look(listed, &looked.loops));
            let second = second.flatten();
            sampled.stacks.extend(self.stack(listed, first, second));
        }
        sampled
    }

    /// That of a task; [`None`] where no thread can run it.
    fn stack(
        &self,
        listed: Listed,
        first: Option<Look>,
        second: Option<Look>,
    ) -> Option<TaskStack> {
        let Some(first) = first else {
            // It has ended since it was found.
            let thread = self.reader.creator(listed)?;
            return Some(TaskStack {
                address: None,
                thread: thread.state,
                frames: None,
                is_cut: false,
                activity: TaskActivity::Runs,
            });
        };
        let mut stack = TaskStack {
            address: second.is_some().then_some(listed.address),
            thread: first.thread?.state,
            frames: None,
            is_cut: false,
            activity: first.activity,
        };
        let second = second.filter(|it| it.coroutine == first.coroutine);
        let second = second.and_then(|second| second.stack);
        if let (Some(first), Some(second)) = (first.stack, second) {
            let (links, is_cut) = common(&first, &second);
            // One without frames, which is no coroutine of Python, is whole.
            if !links.is_empty() || !is_cut {
                stack.frames = Some(self.reader.task_frames(&links));
            }
            stack.is_cut = is_cut;
        }
        Some(stack)
    }
}

/// The functions that were there from the first look until the second one, the outermost first, and whether the first one has
/// seen more.
fn common(first: &Stack, second: &Stack) -> (Vec<Link>, bool) {
    let both = first.links.iter().zip(&second.links);
    let same = both.clone().take_while(|(one, other)| one == other).count();
    // One that has gone on was there all the time, and called others.
    let gone_on = both.clone().nth(same);
    let gone_on = gone_on.is_some_and(|(one, other)| one.is_continued_by(other));
    let links = both
        .map(|(link, _)| *link)
        .take(same + usize::from(gone_on));
    let links: Vec<_> = links.collect();
    let is_cut = first.is_cut || links.len() < first.links.len();
    (links, is_cut)
}

impl<M: UserMemory> Reader<'_, M> {
    /// Looks at a task; [`None`] where it has ended.
    fn look(&mut self, listed: Listed, loops: &HashMap<u64, Thread>) -> Option<Look> {
        let task = self.listed(listed)?;
        let coroutine = task.word(self.objects.layout.asyncio.coroutine);
        let thread = self.thread_of(listed, &task, loops);
        let stack = self.stack(thread, listed.address, UserAddr(coroutine));
        let activity = match &stack {
            Some(stack) => Some(stack.activity),
            None => self.objects.activity(UserAddr(coroutine)),
        };
        let activity = match activity {
            None | Some(Activity::Executing | Activity::Ended) => TaskActivity::Runs,
            Some(Activity::Created) => TaskActivity::IsReady,
            Some(Activity::Suspended | Activity::Opaque) if self.is_ready(&task) => {
                TaskActivity::IsReady
            }
            Some(Activity::Suspended | Activity::Opaque) => TaskActivity::Awaits,
        };
        Some(Look {
            coroutine,
            thread,
            activity,
            // One that has ended has no frame any more.
            stack: stack.filter(|stack| stack.activity != Activity::Ended),
        })
    }

    /// Whether a task that is suspended does not await a future any more that has no result: its loop is to run it.
    fn is_ready(&mut self, task: &Structure) -> bool {
        let asyncio = self.objects.layout.asyncio;
        let (Some(awaited), Some(state)) = (asyncio.awaited_future(), asyncio.future_state())
        else {
            return false;
        };
        let awaited = UserAddr(task.word(awaited));
        if awaited.is_null() {
            return true;
        }
        // One of another class keeps its state elsewhere.
        let future = self.objects.future(awaited);
        future.is_some_and(|future| future.half(state) != PENDING)
    }

    fn task_frames(&self, links: &[Link]) -> Vec<TaskFrame> {
        let frame = |link: &Link| TaskFrame {
            code: link.code,
            instruction_offset: self
                .objects
                .offset(*link)
                .map_or(u32::MAX, offset_in_record),
            is_coroutine: link.is_coroutine,
        };
        links.iter().rev().map(frame).collect()
    }
}

/// As records have it; -1 where it is not in the bytecode.
fn offset_in_record(offset: i64) -> u32 {
    i32::try_from(offset).map_or(u32::MAX, i32::cast_unsigned)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a process has far fewer tasks than 2^53"
)]
fn number(tasks: u64) -> f64 {
    tasks as f64
}
