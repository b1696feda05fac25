//! What is shown at present, and how updates and keys change it.

use std::time::{Duration, SystemTime};

use crossterm::event::{KeyEvent, KeyEventKind};

use super::{
    choices::{Detail, Event, Sort, View},
    figures::{Load, Waiting},
    frames::{FunctionRef, Functions},
    history::{History, MAX_WINDOWS},
    keys::{self, Action, Move},
    relatives::Relatives,
    rows::{Key, Query, Table},
    update::{Status, Subject, Update},
    window::{Activity, Scope},
};

/// Most characters of a filter.
const MAX_FILTER: usize = 100;

/// Most places to go back to.
const MAX_PATH: usize = 100;

/// What is shown.
#[derive(Debug)]
pub(super) struct State {
    pub(super) subject: Subject,
    /// What the agent used by the last window, and by the one before that.
    statuses: [Status; 2],
    functions: Functions,
    history: History,
    /// What is shown while that goes on.
    frozen: Option<History>,
    /// When the last window ended.
    pub(super) updated: SystemTime,
    /// Time that was sampled.
    pub(super) elapsed: Duration,
    pub(super) event: Event,
    pub(super) detail: Detail,
    pub(super) sort: Sort,
    pub(super) filter: String,
    pub(super) mode: Mode,
    here: Place,
    /// Where Enter was pressed.
    path: Vec<Place>,
    pub(super) shown: Shown,
    /// Windows whose shares are shown.
    windows: usize,
    /// Rows that there is room for.
    height: usize,
    /// Why sampling has ended.
    pub(super) ended: Option<String>,
}

/// What keys are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    #[default]
    Rows,
    /// Keys are the text of the filter.
    Filter,
    Help,
}

/// A table, and where in it the cursor is.
#[derive(Clone, Debug, Default)]
struct Place {
    view: View,
    scope: Scope,
    /// The function whose callers and callees are shown.
    function: Option<FunctionRef>,
    /// The row of the cursor; [`None`] for the first one, whatever that is.
    key: Option<Key>,
    cursor: usize,
    /// The first row on the screen.
    offset: usize,
}

/// The rows on the screen.
#[derive(Clone, Debug)]
pub(super) enum Shown {
    Table(Table),
    Relatives(Relatives),
}

/// What a key leads to, besides another state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    GoOn,
    Quit,
    Suspend,
}

/// The choices with which it begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Choices {
    pub(super) view: View,
    pub(super) event: Event,
    pub(super) detail: Detail,
    pub(super) sort: Sort,
    /// Windows whose shares are shown.
    pub(super) windows: usize,
}

impl State {
    pub(super) fn new(choices: Choices) -> Self {
        let here = Place {
            view: choices.view,
            ..Place::default()
        };
        Self {
            subject: Subject::default(),
            statuses: <[Status; 2]>::default(),
            functions: Functions::default(),
            history: History::default(),
            frozen: None,
            updated: SystemTime::now(),
            elapsed: Duration::ZERO,
            event: choices.event,
            detail: choices.detail,
            sort: choices.sort,
            filter: String::new(),
            mode: Mode::default(),
            here,
            path: Vec::new(),
            shown: Shown::Table(Table::default()),
            windows: choices.windows.clamp(1, MAX_WINDOWS),
            height: 1,
            ended: None,
        }
    }

    /// Takes in what was sampled.
    pub(super) fn update(&mut self, update: Update) {
        match update {
            Update::Started(subject) => self.subject = *subject,
            Update::Window {
                profiles,
                looked_at,
                commands,
                status,
            } => {
                self.history.add(&profiles, looked_at, &mut self.functions);
                self.history.add_commands(commands);
                self.elapsed += profiles.first().map_or(Duration::ZERO, |it| it.duration);
                self.statuses = [status, self.statuses[0]];
                if self.frozen.is_none() {
                    self.updated = SystemTime::now();
                }
            }
            Update::Ended(why) => self.ended = Some(why),
        }
        self.refresh();
    }

    /// Sets how many rows there is room for.
    pub(super) fn set_height(&mut self, height: usize) {
        self.height = height.max(1);
        self.scroll();
    }

    /// Does what a key is for; any key ends the help.
    pub(super) fn press(&mut self, key: KeyEvent) -> Outcome {
        if key.kind == KeyEventKind::Release {
            return Outcome::GoOn;
        }
        match (keys::action(key, self.mode == Mode::Filter), self.mode) {
            (Some(action @ (Action::Quit | Action::Suspend)), _) => self.act(action),
            (_, Mode::Help) => {
                self.mode = Mode::Rows;
                Outcome::GoOn
            }
            (Some(action), _) => self.act(action),
            (None, _) => Outcome::GoOn,
        }
    }

    fn act(&mut self, action: Action) -> Outcome {
        match action {
            Action::Quit => return Outcome::Quit,
            Action::Suspend => return Outcome::Suspend,
            Action::Back => return self.back(),
            Action::Open => self.open(),
            Action::Move(to) => {
                self.move_cursor(to);
                self.scroll();
                return Outcome::GoOn;
            }
            Action::View(view) => self.view(view),
            Action::NextView => self.next_view(),
            Action::Sort(sort) => self.sort = sort,
            Action::Pause => {
                let frozen = self.frozen.take();
                self.frozen = frozen.is_none().then(|| self.history.clone());
            }
            Action::ToggleNative => {
                self.detail = match self.detail {
                    Detail::Python if self.subject.has_native => Detail::Native,
                    _ => Detail::Python,
                }
            }
            Action::ToggleInterpreter => {
                self.detail = match self.detail {
                    Detail::All => Detail::Native,
                    _ if self.subject.has_native => Detail::All,
                    other => other,
                }
            }
            Action::ToggleEvent => {
                self.event = match self.event {
                    Event::Cpu if self.subject.has_wall() => Event::Wall,
                    _ => Event::Cpu,
                }
            }
            Action::Restart => self.history.restart(),
            Action::Help => self.mode = Mode::Help,
            Action::EditFilter => {
                if self.here.function.is_none() {
                    self.mode = Mode::Filter;
                }
            }
            Action::Type(character) => {
                if !character.is_control() && self.filter.chars().count() < MAX_FILTER {
                    self.filter.push(character);
                }
            }
            Action::DeleteCharacter => {
                self.filter.pop();
            }
            Action::EndEditing => self.mode = Mode::Rows,
            Action::DropFilter => {
                self.filter.clear();
                self.mode = Mode::Rows;
            }
        }
        self.refresh();
        Outcome::GoOn
    }

    pub(super) fn is_paused(&self) -> bool {
        self.frozen.is_some()
    }

    /// The table that is shown, or from which callers and callees were opened.
    pub(super) fn view_shown(&self) -> View {
        self.here.view
    }

    /// The tables that there are.
    pub(super) fn views(&self) -> impl Iterator<Item = (View, &'static str)> {
        let all = View::NAMES.into_iter();
        let has_processes = self.subject.has_processes;
        all.filter(move |(view, _)| *view != View::Processes || has_processes)
    }

    /// The process and the thread whose functions are shown, if not all of them.
    pub(super) fn scope(&self) -> Scope {
        self.here.scope
    }

    /// How long the windows are together whose shares are shown.
    pub(super) fn span(&self) -> Duration {
        let windows = self.history().series(self.event).newest_first();
        windows.take(self.windows).map(|it| it.elapsed).sum()
    }

    /// The first row on the screen, and the row of the cursor.
    pub(super) fn position(&self) -> (usize, usize) {
        (self.here.offset, self.here.cursor)
    }

    /// Share of a CPU that the agent used in the last window, BPF programs included as far as the kernel
    /// measures them, and its memory in bytes; [`None`] in the first one, in which it starts.
    pub(super) fn cost(&self) -> Option<(f64, u64)> {
        let [now, before] = self.statuses;
        let elapsed = now.at.checked_sub(before.at)?.as_secs_f64();
        let used = now.used.saturating_sub(before.used).as_secs_f64();
        let is_known = !before.at.is_zero() && elapsed > 0.0;
        is_known.then(|| (used / elapsed, now.resident_bytes))
    }

    /// Samples that were lost so far.
    pub(super) fn lost(&self) -> u64 {
        self.statuses[0].lost
    }

    /// How busy what is shown is.
    pub(super) fn load(&self) -> Load {
        let history = self.history();
        let scope = self.here.scope;
        let windows = self.windows;
        let cpu = history.series(Event::Cpu);
        let wall = history.series(Event::Wall);
        let threads = |activity| wall.load(windows, |it| it.activity == activity && scope.has(it));
        Load {
            cpus: cpu.load(windows, |it| scope.has(it)),
            gc: cpu.load(windows, |it| it.collects_garbage && scope.has(it)),
            samples_per_second: cpu.rate(windows),
            // Each process has its own GIL, or none.
            gil_held: (self.subject.has_gil() && self.is_one_process())
                .then(|| history.gil_held(windows, scope))
                .flatten(),
            waiting: self.subject.has_wall().then(|| Waiting {
                for_gil: threads(Activity::WaitsForGil),
                for_cpu: threads(Activity::Runnable),
                otherwise: threads(Activity::Waits),
                stopped: threads(Activity::Stopped),
            }),
        }
    }

    /// The name of what is shown: the subject, or the process that was chosen among several.
    pub(super) fn title(&self) -> String {
        let Some(pid) = self.here.scope.pid.filter(|_| self.subject.has_processes) else {
            return self.subject.name.clone();
        };
        let process = self.history().process(pid);
        process.map_or_else(|| format!("pid {pid}"), |it| it.subject.clone())
    }

    /// Whether what is shown is of one process.
    fn is_one_process(&self) -> bool {
        !self.subject.has_processes || self.here.scope.pid.is_some()
    }

    fn history(&self) -> &History {
        self.frozen.as_ref().unwrap_or(&self.history)
    }

    fn query(&self) -> Query<'_> {
        Query {
            view: self.here.view,
            // What threads wait for has columns of its own.
            event: match self.here.view {
                View::Functions | View::Lines => self.event,
                View::Threads | View::Processes => Event::Cpu,
            },
            detail: self.detail,
            sort: self.sort,
            scope: self.here.scope,
            filter: &self.filter,
            windows: self.windows,
        }
    }

    fn refresh(&mut self) {
        let (history, query) = (self.history(), self.query());
        self.shown = match &self.here.function {
            Some(function) => Shown::Relatives(Relatives::new(history, &query, function.clone())),
            None => Shown::Table(Table::new(history, &query)),
        };
        if let (Shown::Table(table), Some(key)) = (&self.shown, &self.here.key) {
            let found = table.rows.iter().position(|row| row.key == *key);
            self.here.cursor = found.unwrap_or(self.here.cursor);
        }
        self.scroll();
    }

    /// How many rows there are for the cursor.
    fn rows(&self) -> usize {
        match &self.shown {
            Shown::Table(table) => table.rows.len(),
            Shown::Relatives(it) => it.callers.len() + it.callees.len(),
        }
    }

    /// Keeps the cursor on a row, and on the screen.
    fn scroll(&mut self) {
        let last = self.rows().saturating_sub(1);
        let place = &mut self.here;
        place.cursor = place.cursor.min(last);
        let lowest = (place.cursor + 1).saturating_sub(self.height);
        place.offset = place.offset.clamp(lowest, place.cursor.max(lowest));
        // No empty lines at the end while there are rows above.
        place.offset = place.offset.min((last + 1).saturating_sub(self.height));
    }

    fn move_cursor(&mut self, to: Move) {
        let (cursor, page) = (self.here.cursor, self.height);
        let last = self.rows().saturating_sub(1);
        let cursor = match to {
            Move::Up => cursor.saturating_sub(1),
            Move::Down => cursor + 1,
            Move::PageUp => cursor.saturating_sub(page),
            Move::PageDown => cursor + page,
            Move::First => 0,
            Move::Last => last,
        };
        self.here.cursor = cursor.min(last);
        self.here.key = match (&self.shown, self.here.cursor) {
            (Shown::Table(table), 1..) => {
                table.rows.get(self.here.cursor).map(|row| row.key.clone())
            }
            _ => None,
        };
    }

    fn view(&mut self, view: View) {
        if self.views().all(|(it, _)| it != view) {
            return;
        }
        let mut scope = self.here.scope;
        // Its rows are the choice itself.
        match view {
            View::Processes => scope = Scope::default(),
            View::Threads => scope.tid = None,
            View::Functions | View::Lines => {}
        }
        self.here = Place {
            view,
            scope,
            ..Place::default()
        };
    }

    fn next_view(&mut self) {
        let views: Vec<_> = self.views().map(|(view, _)| view).collect();
        let here = views.iter().position(|view| *view == self.here.view);
        self.view(views[(here.unwrap_or(0) + 1) % views.len()]);
    }

    /// Opens the row of the cursor.
    fn open(&mut self) {
        let cursor = self.here.cursor;
        let key = match &self.shown {
            Shown::Table(table) => table.rows.get(cursor).map(|row| row.key.clone()),
            Shown::Relatives(it) => {
                let mut relatives = it.callers.iter().chain(&it.callees);
                let chosen = relatives.nth(cursor);
                chosen.map(|(function, _)| Key::Function(function.clone()))
            }
        };
        let Some(key) = key else { return };
        let mut next = Place {
            view: self.here.view,
            scope: self.here.scope,
            ..Place::default()
        };
        match &key {
            Key::Function(function) | Key::Line(function, _) => {
                next.function = Some(function.clone());
            }
            Key::Thread(pid, tid) => {
                next.view = View::Functions;
                next.scope = Scope {
                    pid: Some(*pid),
                    tid: Some(*tid),
                };
            }
            Key::Process(pid) => {
                next.view = View::Functions;
                next.scope.pid = Some(*pid);
            }
        }
        if next.function.is_none() {
            // It has found the row, and is no text in the next table.
            self.filter.clear();
        }
        let mut here = std::mem::replace(&mut self.here, next);
        here.key = Some(key).filter(|_| here.function.is_none());
        if self.path.len() >= MAX_PATH {
            self.path.remove(0);
        }
        self.path.push(here);
    }

    fn back(&mut self) -> Outcome {
        if !self.filter.is_empty() && self.here.function.is_none() {
            self.filter.clear();
        } else if let Some(place) = self.path.pop() {
            self.here = place;
        } else {
            return Outcome::Quit;
        }
        self.refresh();
        Outcome::GoOn
    }
}
