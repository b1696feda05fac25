//! Tasks as text: a tree, in which each task is below one that waits for it.

use std::fmt;

use super::{
    colours::Colours,
    document::DumpedProcess,
    frame_text::write_frame,
    task_forest::Forest,
    tasks::{DumpedTask, DumpedTaskState},
};
use crate::text::{plural, printable};

/// Names of tasks that are said of one.
const MAX_NAMES: usize = 10;

/// Levels of the tree that are indented.
const MAX_LEVELS: usize = 20;

/// Cycles that are said.
const MAX_CYCLES: usize = 10;

/// A task to be written.
struct Place {
    task: usize,
    level: usize,
    /// What is before all lines below it.
    guides: String,
    is_last: bool,
    awaiter: Option<usize>,
}

/// Writes the tasks of a process, if they are wanted.
pub(super) fn write(
    formatter: &mut fmt::Formatter<'_>,
    process: &DumpedProcess,
    colours: Colours,
) -> fmt::Result {
    let note = process.tasks_note.as_deref().map(printable);
    let (bold, end) = (colours.bold(), colours.end());
    let Some(tasks) = &process.tasks else {
        return match note {
            Some(note) => writeln!(formatter, "\n{bold}Tasks{end}: {note}"),
            None => Ok(()),
        };
    };
    write!(formatter, "\n{bold}Tasks{end}: {}", tasks.len())?;
    let thread = common_thread(tasks);
    if let Some(tid) = thread {
        write!(formatter, ", all of thread {tid}")?;
    }
    if let Some(note) = note {
        write!(formatter, "; {note}")?;
    }
    writeln!(formatter)?;
    let forest = Forest::new(tasks);
    write_cycles(formatter, tasks, &forest)?;
    let text = TaskText {
        tasks,
        forest: &forest,
        has_threads: thread.is_none(),
        colours,
    };
    for root in &forest.roots {
        writeln!(formatter)?;
        text.write_tree(formatter, *root)?;
    }
    Ok(())
}

/// The thread of all tasks.
fn common_thread(tasks: &[DumpedTask]) -> Option<u32> {
    let first = tasks.first()?.tid?;
    tasks
        .iter()
        .all(|it| it.tid == Some(first))
        .then_some(first)
}

fn write_cycles(
    formatter: &mut fmt::Formatter<'_>,
    tasks: &[DumpedTask],
    forest: &Forest,
) -> fmt::Result {
    for cycle in forest.cycles.iter().take(MAX_CYCLES) {
        let shown = cycle
            .iter()
            .take(MAX_NAMES)
            .map(|nth| quoted(&tasks[*nth].name));
        let mut names: Vec<String> = shown.collect();
        match cycle.len() - names.len() {
            0 => names.push(quoted(&tasks[cycle[0]].name)),
            more => names.push(format!("{more} more")),
        }
        let first = names.remove(0);
        let others = names.join(", which waits for ");
        writeln!(formatter, "Cycle: {first} waits for {others}")?;
    }
    match forest.cycles.len().saturating_sub(MAX_CYCLES) {
        0 => Ok(()),
        more => writeln!(
            formatter,
            "{more} more {}",
            plural(more as u64, "cycle", "cycles")
        ),
    }
}

struct TaskText<'a> {
    tasks: &'a [DumpedTask],
    forest: &'a Forest,
    /// Whether each task says its thread.
    has_threads: bool,
    colours: Colours,
}

impl TaskText<'_> {
    fn write_tree(&self, formatter: &mut fmt::Formatter<'_>, root: usize) -> fmt::Result {
        let mut left = vec![Place {
            task: root,
            level: 0,
            guides: String::new(),
            is_last: true,
            awaiter: None,
        }];
        while let Some(place) = left.pop() {
            let guides = self.write_task(formatter, &place)?;
            let below = &self.forest.below[place.task];
            let places = below.iter().enumerate().rev().map(|(nth, task)| Place {
                task: *task,
                level: place.level + 1,
                guides: guides.clone(),
                is_last: nth + 1 == below.len(),
                awaiter: Some(place.task),
            });
            left.extend(places);
        }
        Ok(())
    }

    /// Writes a task; returns what is before the lines of those below it.
    fn write_task(
        &self,
        formatter: &mut fmt::Formatter<'_>,
        place: &Place,
    ) -> Result<String, fmt::Error> {
        let task = &self.tasks[place.task];
        let is_indented = place.level <= MAX_LEVELS;
        let (branch, rest) = match (place.level, place.is_last) {
            (0, _) => ("", ""),
            (_, true) if is_indented => ("└─ ", "   "),
            (_, false) if is_indented => ("├─ ", "│  "),
            _ => ("└─ ", ""),
        };
        let colours = self.colours;
        write!(
            formatter,
            "{}{branch}{}Task {}{}: {}",
            place.guides,
            colours.bold(),
            quoted(&task.name),
            colours.end(),
            match task.state {
                Some(DumpedTaskState::Created) => "not started",
                Some(DumpedTaskState::Running) => "running",
                Some(DumpedTaskState::Waiting) => "waiting",
                None => "changed while it was read",
            }
        )?;
        if self.has_threads {
            match task.tid {
                Some(tid) => write!(formatter, ", thread {tid}")?,
                None => write!(formatter, ", of a thread that has ended")?,
            }
        }
        self.write_awaiters(formatter, place)?;
        writeln!(formatter)?;
        let guides = format!("{}{rest}", place.guides);
        let has_below = !self.forest.below[place.task].is_empty();
        let indent = format!("{guides}{}", if has_below { "│   " } else { "    " });
        for frame in task.frames.iter().flatten() {
            write_frame(formatter, frame, &indent, colours)?;
        }
        Ok(guides)
    }

    /// Writes which tasks wait for a task, unless its place in the tree says so.
    fn write_awaiters(&self, formatter: &mut fmt::Formatter<'_>, place: &Place) -> fmt::Result {
        let awaiters = &self.tasks[place.task].awaited_by;
        let above = place.awaiter.map(|nth| &*self.tasks[nth].id);
        let is_said = match &**awaiters {
            [] => true,
            [only] => above == Some(&*only.id) && place.level <= MAX_LEVELS,
            _ => false,
        };
        if is_said {
            return Ok(());
        }
        let names = awaiters.iter().take(MAX_NAMES).map(|it| quoted(&it.name));
        let names: Vec<String> = names.collect();
        write!(formatter, ", awaited by {}", names.join(", "))?;
        match awaiters.len() - names.len() {
            0 => Ok(()),
            more => write!(formatter, " and {more} more"),
        }
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", printable(name).replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::{
        super::{document::DumpedProcess, tasks::fixtures},
        *,
    };

    struct Shown(DumpedProcess);

    impl fmt::Display for Shown {
        fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            write(formatter, &self.0, Colours::NONE)
        }
    }

    fn text(tasks: Option<Vec<DumpedTask>>, note: Option<&str>) -> String {
        let process = DumpedProcess {
            tasks,
            tasks_note: note.map(str::to_owned),
            ..DumpedProcess::new(0, None)
        };
        Shown(process).to_string()
    }

    #[test]
    fn tasks_are_below_those_that_wait_for_them() {
        let mut tasks = fixtures::tasks(&[&[], &[0], &[1, 3], &[0], &[]]);
        tasks[2].name = "a\u{1b}\"b".to_owned();
        tasks[3].state = Some(DumpedTaskState::Created);
        tasks[4].tid = None;
        tasks[4].state = None;
        tasks[4].frames = None;
        assert_eq!(
            text(Some(tasks), Some("1 more is not shown")),
            "
Tasks: 5; 1 more is not shown

Task \"task 0\": waiting, thread 7
│   f (app.py:0)
├─ Task \"task 1\": waiting, thread 7
│  │   f (app.py:1)
│  └─ Task \"a\\u{1b}\\\"b\": waiting, thread 7, awaited by \"task 1\", \"task 3\"
│         f (app.py:2)
└─ Task \"task 3\": not started, thread 7
       f (app.py:3)

Task \"task 4\": changed while it was read, of a thread that has ended
"
        );
    }

    #[test]
    fn cycles_are_said_once() {
        let shown = text(Some(fixtures::tasks(&[&[1], &[0]])), None);
        assert_eq!(
            shown,
            "
Tasks: 2, all of thread 7
Cycle: \"task 1\" waits for \"task 0\", which waits for \"task 1\"

Task \"task 1\": waiting, awaited by \"task 0\"
│   f (app.py:1)
└─ Task \"task 0\": waiting
       f (app.py:0)
"
        );
    }

    #[test]
    fn a_long_chain_does_not_grow_wider_and_wider() {
        let awaiters: Vec<Vec<usize>> = (0..1_000_usize)
            .map(|nth| nth.checked_sub(1).into_iter().collect())
            .collect();
        let awaiters: Vec<&[usize]> = awaiters.iter().map(Vec::as_slice).collect();
        let shown = text(Some(fixtures::tasks(&awaiters)), None);
        assert!(shown.lines().all(|line| line.chars().count() < 200));
        assert!(shown.contains("└─ Task \"task 999\": waiting, awaited by \"task 998\"\n"));
    }

    #[test]
    fn without_tasks_it_is_said_why() {
        assert_eq!(text(None, None), "");
        assert_eq!(
            text(None, Some("there are none")),
            "\nTasks: there are none\n"
        );
        assert_eq!(text(Some(Vec::new()), None), "\nTasks: 0\n");
    }
}
