//! The screen at two sizes, drawn into memory.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::{Terminal, backend::TestBackend};

use super::*;
use crate::{
    commands::top::{
        state::Choices,
        update::{Status, Subject, Waits},
    },
    profile::{
        Profile,
        fixtures::{example_processes, example_profile, of_kind, with_waits},
        kinds::{gil_held, wall},
    },
};

/// A screen after windows with these profiles each.
struct Shown {
    state: State,
    terminal: Terminal<TestBackend>,
}

impl Shown {
    fn new((width, height): (u16, u16), subject: Subject, profiles: &[Profile]) -> Self {
        let choices = Choices {
            windows: 10,
            ..Choices::default()
        };
        let mut state = State::new(choices);
        state.update(Update::Started(Box::new(subject)));
        let mut shown = Self {
            state,
            terminal: Terminal::new(TestBackend::new(width, height)).unwrap(),
        };
        shown.window(profiles);
        shown
    }

    fn window(&mut self, profiles: &[Profile]) {
        self.state.update(Update::Window {
            profiles: profiles.to_vec(),
            looked_at: profiles.first().map_or(Duration::ZERO, |it| it.duration),
            commands: Vec::new(),
            status: Status::default(),
        });
    }

    /// Presses these keys; returns what the last one leads to.
    fn press(&mut self, codes: &[KeyCode]) -> Option<Outcome> {
        let mut outcome = None;
        for code in codes {
            let key = KeyEvent::new(*code, KeyModifiers::NONE);
            outcome = Some(self.state.press(key));
        }
        outcome
    }

    /// The lines of the screen, without spaces at their ends.
    fn lines(&mut self) -> Vec<String> {
        let theme = Theme::without_colours();
        self.terminal
            .draw(|frame| draw(frame, &mut self.state, theme))
            .unwrap();
        let buffer = self.terminal.backend().buffer();
        let width = usize::from(buffer.area.width);
        buffer
            .content
            .chunks(width)
            .map(|cells| {
                let line: String = cells.iter().map(ratatui::buffer::Cell::symbol).collect();
                line.trim_end().to_owned()
            })
            .collect()
    }

    /// The first line with a text.
    fn line(&mut self, text: &str) -> String {
        let lines = self.lines();
        let found = lines.iter().find(|line| line.contains(text));
        found
            .unwrap_or_else(|| panic!("{text}:\n{}", lines.join("\n")))
            .clone()
    }
}

fn subject() -> Subject {
    Subject {
        name: "python3.12 (pid 4242, CPython 3.12.1)".to_owned(),
        command: "python3 /srv/app.py --workers 4 --bind 0.0.0.0:8000 --log-level info".to_owned(),
        has_native: true,
        waits: Waits::WithGil,
        ..Subject::default()
    }
}

fn profiles() -> Vec<Profile> {
    let waits = [
        (0, "[waiting: gil]"),
        (6, "[waiting: sleep]"),
        (7, "[runnable]"),
    ];
    let elapsed = with_waits(example_profile("/srv/app.py"), &waits);
    vec![
        example_profile("/srv/app.py"),
        of_kind(elapsed, &wall::KIND),
        of_kind(example_profile("/srv/app.py"), &gil_held::KIND),
    ]
}

#[test]
fn a_small_screen_has_the_busiest_functions_and_the_keys() {
    let mut shown = Shown::new((80, 24), subject(), &profiles());
    let lines = shown.lines();
    println!("{}", lines.join("\n"));
    assert_eq!(lines.len(), 24);
    assert!(lines[0].starts_with("python3.12 (pid 4242, CPython 3.12.1)  python3 /srv/app.py"));
    assert!(lines[0].ends_with("10 s"));
    assert!(lines[1].starts_with("CPU 40.0%  GIL held 40%  wait: GIL 0.1 CPU"));
    assert_eq!(
        lines[2],
        "[1 functions] 2 lines  3 threads   CPU time, last 10 s, by self"
    );
    assert_eq!(
        lines[3],
        " self%  total%    self s  trend       function  place"
    );
    let trend = "         █";
    assert_eq!(
        lines[4],
        format!("  37.5    37.5      1.50  {trend}  fib  /srv/app.py:7")
    );
    assert_eq!(
        lines[5],
        format!("  37.5    37.5      1.50  {trend}  loads  …/python3.12/json/__init__.py:299")
    );
    // Text of others controls nothing.
    assert!(shown.line("a;b").contains(r"a;b\n\u{1b}[31m <c> 9"));
    assert!(lines[23].starts_with("q end  ? help  Enter open"));
}

#[test]
fn a_large_screen_has_more_columns() {
    let mut shown = Shown::new((200, 60), subject(), &profiles());
    let lines = shown.lines();
    assert_eq!(lines.len(), 60);
    let titles = format!(
        " self%  total%    self s   total s  {:<20}  function  place",
        "trend"
    );
    assert_eq!(lines[3], titles);
    assert!(lines[0].contains("--log-level info"));
    assert!(lines[59].ends_with("r restart sums"));
    // What is narrower than a name is drawn all the same.
    for size in [(1, 1), (10, 3), (40, 6)] {
        let mut shown = Shown::new(size, subject(), &profiles());
        assert_eq!(shown.lines().len(), usize::from(size.1));
    }
}

#[test]
fn the_cursor_stays_on_its_row_while_others_pass_it() {
    let mut shown = Shown::new((80, 12), subject(), &profiles());
    shown.press(&[KeyCode::Down, KeyCode::Down]);
    let chosen = |shown: &Shown| match &shown.state.shown {
        crate::commands::top::state::Shown::Table(table) => {
            table.rows[shown.state.position().1].name.clone()
        }
        other @ crate::commands::top::state::Shown::Relatives(_) => panic!("{other:?}"),
    };
    let before = chosen(&shown);
    // Only the chosen row and what is below it is busy now.
    let mut next = example_profile("/srv/app.py");
    next.samples.retain(|sample| sample.thread.0 != 0);
    for sample in &mut next.samples {
        sample.value *= 9;
    }
    for _ in 0..20 {
        shown.window(&[next.clone()]);
    }
    assert_eq!(chosen(&shown), before);
    shown.press(&[KeyCode::End]);
    let (offset, cursor) = shown.state.position();
    shown.lines();
    assert!(cursor >= offset && shown.state.position().0 > 0);
}

#[test]
fn keys_change_the_table() {
    let mut shown = Shown::new((80, 24), subject(), &profiles());
    shown.press(&[KeyCode::Char('t')]);
    assert!(shown.lines()[4].contains("<module>"));
    shown.press(&[KeyCode::Char('2')]);
    assert!(shown.line("/srv/app.py:11").contains("fib"));
    shown.press(&[KeyCode::Char('n')]);
    assert!(shown.lines()[2].ends_with("Python only"));
    shown.press(&[KeyCode::Char('e')]);
    assert!(shown.lines()[2].contains("elapsed time"));
    shown.press(&[KeyCode::Char('3')]);
    let worker = shown.line("worker (4243)");
    assert!(worker.contains("loads"), "{worker}");
    // A thread of its own, and back.
    shown.press(&[KeyCode::Down, KeyCode::Enter]);
    assert!(shown.lines()[2].contains("thread 424"));
    assert_eq!(shown.press(&[KeyCode::Esc]), Some(Outcome::GoOn));
    assert!(shown.lines()[2].contains("[3 threads]"));
    assert_eq!(shown.press(&[KeyCode::Esc]), Some(Outcome::Quit));
}

#[test]
fn a_filter_is_edited_kept_and_dropped() {
    let mut shown = Shown::new((80, 24), subject(), &profiles());
    let text = ['/', 'J', 's', 'o', 'x'].map(KeyCode::Char);
    shown.press(&text);
    assert!(shown.lines()[2].contains("/Jsox_"));
    shown.line("No row has this text");
    shown.press(&[KeyCode::Backspace, KeyCode::Char('n'), KeyCode::Enter]);
    let lines = shown.lines();
    assert!(lines[2].contains("/Json  ") && lines[4].contains("loads"));
    assert_eq!(lines[5], "");
    assert_eq!(shown.press(&[KeyCode::Esc]), Some(Outcome::GoOn));
    assert!(shown.lines()[5].contains("loads"));
}

#[test]
fn callers_and_callees_of_a_function_are_shown_and_followed() {
    let mut shown = Shown::new((80, 24), subject(), &profiles());
    shown.press(&[KeyCode::Enter]);
    let lines = shown.lines();
    println!("{}", lines.join("\n"));
    assert!(lines[4].starts_with("Callers"));
    assert_eq!(lines[5], "  37.5   100.0    main  /srv/app.py:3");
    assert_eq!(lines[7], "  37.5   100.0  ► fib  /srv/app.py:7");
    shown.press(&[KeyCode::Enter]);
    shown.line("► main  /srv/app.py:3");
    shown.line("  37.5    41.6    fib  /srv/app.py:7");
    shown.press(&[KeyCode::Esc, KeyCode::Esc]);
    shown.line("[1 functions]");
}

#[test]
fn what_is_paused_stays_and_the_end_is_said() {
    let mut shown = Shown::new((80, 24), subject(), &profiles());
    shown.press(&[KeyCode::Char(' ')]);
    let before = shown.lines();
    assert!(before[2].contains("PAUSED"));
    let mut other = example_profile("/srv/other.py");
    other.samples.truncate(1);
    shown.window(&[other.clone()]);
    let paused = shown.lines();
    assert_eq!(before[1..23], paused[1..23]);
    shown.press(&[KeyCode::Char(' ')]);
    shown.line("/srv/other.py");
    let ended = "Process 4242 has ended.".to_owned();
    shown.state.update(Update::Ended(ended));
    let last = &shown.lines()[22];
    assert_eq!(
        last,
        "Process 4242 has ended. This is what was sampled last; q ends."
    );
    shown.line("fib");
}

#[test]
fn a_host_begins_with_its_processes() {
    let host = Subject {
        name: "web-1".to_owned(),
        has_processes: true,
        has_native: true,
        ..Subject::default()
    };
    let mut shown = Shown::new((80, 24), host, &[example_processes("/srv/app.py")]);
    shown.press(&[KeyCode::Char('4')]);
    let lines = shown.lines();
    assert!(lines[2].contains("[4 processes]"));
    assert!(lines[4].starts_with("   4242    40.0      4.00") && lines[4].contains("python3.12"));
    shown.press(&[KeyCode::Down, KeyCode::Enter]);
    let lines = shown.lines();
    assert!(
        lines[0].starts_with("python2.7 (pid 4300, CPython 2.7.18)"),
        "{}",
        lines[0]
    );
    assert!(lines[2].contains("[1 functions]"));
    assert!(
        lines[4].starts_with(" 100.0   100.0      1.10"),
        "{}",
        lines[4]
    );
    shown.press(&[KeyCode::Esc]);
    assert!(shown.lines()[2].contains("[4 processes]"));
}

#[test]
fn the_processes_of_a_host_have_their_gil_and_their_waits() {
    let host = Subject {
        name: "web-1".to_owned(),
        has_processes: true,
        waits: Waits::WithGil,
        ..Subject::default()
    };
    let example = || example_processes("/srv/app.py");
    let elapsed = with_waits(example(), &[(0, "[waiting: gil]")]);
    let profiles = [
        example(),
        of_kind(elapsed, &wall::KIND),
        of_kind(example(), &gil_held::KIND),
    ];
    let mut shown = Shown::new((80, 24), host, &profiles);
    shown.press(&[KeyCode::Char('4')]);
    let lines = shown.lines();
    println!("{}", lines.join("\n"));
    // The share of a host's GILs together means nothing.
    assert!(lines[1].contains("  wait: GIL 0.1") && !lines[1].contains("held"));
    assert!(lines[3].starts_with("    pid    CPU%   held%    GIL%   wait%  trend"));
    assert!(lines[4].starts_with("   4242    40.0    40.0    12.0     0.0  "));
    shown.press(&[KeyCode::Char('t')]);
    assert!(shown.lines()[2].ends_with("by total"));
    shown.press(&[KeyCode::Enter]);
    assert!(shown.lines()[1].contains("  GIL held 40%  wait: GIL 0.1"));
    shown.press(&[KeyCode::Char('3')]);
    assert!(shown.lines()[3].starts_with("  CPU%   held%    GIL%   wait%   idle%"));
}

#[test]
fn how_many_threads_are_stopped_is_said() {
    assert!(!Shown::new((80, 24), subject(), &profiles()).lines()[1].contains("stopped"));
    let mut profiles = profiles();
    let elapsed = with_waits(example_profile("/srv/app.py"), &[(0, "[stopped]")]);
    profiles[1] = of_kind(elapsed, &wall::KIND);
    let mut shown = Shown::new((80, 24), subject(), &profiles);
    let load = &shown.lines()[1];
    assert!(load.contains(" other 0.0  stopped 0.1"), "{load}");
}

#[test]
fn the_help_fits_a_small_screen() {
    let mut shown = Shown::new((80, 24), subject(), &profiles());
    shown.press(&[KeyCode::Char('?')]);
    let lines = shown.lines();
    println!("{}", lines.join("\n"));
    assert!(lines[3].contains("1 2 3 4"));
    shown.line("wait, in the second line: how many threads wait, and for");
    assert!(lines[3..].iter().all(|line| !line.contains('…')));
    shown.press(&[KeyCode::Char('x')]);
    shown.line("fib");
}
