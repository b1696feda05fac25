use super::*;
use crate::{
    commands::top::frames::Functions,
    profile::{
        fixtures::{PERIOD_NS, example_processes, example_profile, of_kind, with_waits},
        kinds::{gil_held, wall},
    },
};

fn history() -> History {
    let mut history = History::default();
    let mut functions = Functions::default();
    let waits = [
        (0, "[waiting: gil]"),
        (6, "[waiting: sleep]"),
        (7, "[runnable]"),
    ];
    let elapsed = of_kind(with_waits(example_profile("app.py"), &waits), &wall::KIND);
    let looked_at = elapsed.duration;
    let profiles = [example_profile("app.py"), elapsed];
    history.add(&profiles, looked_at, &mut functions);
    history
}

fn query() -> Query<'static> {
    Query {
        windows: 10,
        ..Query::default()
    }
}

/// The names of the first rows, with own and total time in sampling periods.
fn first(history: &History, query: &Query<'_>) -> Vec<(String, u64, u64)> {
    let table = Table::new(history, query);
    let rows = table.rows.into_iter().take(3);
    rows.map(|row| (row.name, row.own / PERIOD_NS, row.total / PERIOD_NS))
        .collect()
}

fn row(name: &str, own: u64, total: u64) -> (String, u64, u64) {
    (name.to_owned(), own, total)
}

#[test]
fn functions_are_sorted_by_the_chosen_column() {
    let history = history();
    let by_own = first(&history, &query());
    assert_eq!(
        by_own[..2],
        [row("fib", 150, 150), row("loads", 150, 150)][..]
    );
    let total = Query {
        sort: Sort::Total,
        ..query()
    };
    assert_eq!(first(&history, &total)[0].0, "<module>");
    let filtered = Query {
        filter: "API.py",
        ..query()
    };
    let rows = first(&history, &filtered);
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].0, "get");
}

#[test]
fn own_time_of_frames_that_are_not_shown_is_that_of_their_caller() {
    let history = history();
    for detail in Detail::EACH {
        let query = Query { detail, ..query() };
        let table = Table::new(&history, &query);
        let own: u64 = table.rows.iter().map(|row| row.own).sum();
        assert_eq!(own, table.whole, "{detail:?}");
        assert_eq!(own, 400 * PERIOD_NS);
        for row in &table.rows {
            let since = Since {
                own: row.own,
                total: row.total,
            };
            assert_eq!(row.since_start, Some(since), "{detail:?} {}", row.name);
        }
    }
}

#[test]
fn lines_of_a_function_are_apart() {
    let lines = Query {
        view: View::Lines,
        filter: "fib",
        ..query()
    };
    let rows = Table::new(&history(), &lines).rows;
    let shown: Vec<_> = rows
        .iter()
        .map(|row| (&*row.place, row.own / PERIOD_NS))
        .collect();
    assert_eq!(shown, [("app.py:11", 120), ("app.py:10", 30)]);
}

#[test]
fn threads_have_what_they_do_and_where() {
    let threads = Query {
        view: View::Threads,
        ..query()
    };
    let rows = Table::new(&history(), &threads).rows;
    let names: Vec<_> = rows.iter().map(|row| &*row.name).collect();
    assert_eq!(names[0], "MainThread (4242)");
    assert_eq!(rows[0].place, "fib");
    let activities = rows[0].activities;
    assert_eq!(activities.waits_for_gil, 120 * PERIOD_NS);
    assert_eq!(activities.sum(), rows[0].own);
    let scope = Scope {
        pid: Some(4242),
        tid: Some(4243),
    };
    let of_thread = Query { scope, ..query() };
    let table = Table::new(&history(), &of_thread);
    assert_eq!(table.whole, 76 * PERIOD_NS);
    assert_eq!(table.rows[0].name, "loads");
    assert_eq!(table.rows[0].since_start, None);
}

#[test]
fn a_thread_that_is_stopped_is_one_that_waits() {
    let elapsed = with_waits(example_profile("app.py"), &[(0, "[stopped]")]);
    let elapsed = of_kind(elapsed, &wall::KIND);
    let mut history = History::default();
    let looked_at = elapsed.duration;
    let profiles = [example_profile("app.py"), elapsed];
    history.add(&profiles, looked_at, &mut Functions::default());
    let threads = Query {
        view: View::Threads,
        ..query()
    };
    let rows = Table::new(&history, &threads).rows;
    assert_eq!(rows[0].activities.waits, 120 * PERIOD_NS);
}

#[test]
fn processes_have_the_time_of_their_threads() {
    let mut history = History::default();
    let profiles = [example_processes("")];
    history.add(&profiles, Duration::ZERO, &mut Functions::default());
    let processes = Query {
        view: View::Processes,
        ..query()
    };
    let rows = first(&history, &processes);
    let times: Vec<_> = rows.iter().map(|(_, own, _)| *own).collect();
    assert_eq!(times, [400, 110, 7]);
    let scope = Scope {
        pid: Some(4300),
        tid: None,
    };
    let one = Query { scope, ..query() };
    assert_eq!(Table::new(&history, &one).whole, 110 * PERIOD_NS);
}

#[test]
fn processes_have_what_their_threads_wait_for() {
    let example = || example_processes("app.py");
    let waits = [
        (0, "[waiting: gil]"),
        (6, "[waiting: sleep]"),
        (7, "[runnable]"),
    ];
    let elapsed = of_kind(with_waits(example(), &waits), &wall::KIND);
    let held = of_kind(example(), &gil_held::KIND);
    let mut history = History::default();
    // Passes stand for twice as much as the window.
    let looked_at = elapsed.duration * 2;
    let profiles = [example(), elapsed, held];
    history.add(&profiles, looked_at, &mut Functions::default());
    let by = |sort| {
        let query = Query {
            view: View::Processes,
            sort,
            ..query()
        };
        Table::new(&history, &query)
    };
    let table = by(Sort::Own);
    let first = &table.rows[0];
    let waiting = first.activities.sum() - first.activities.runs - first.activities.idle;
    assert!(first.activities.waits_for_gil > 0 && first.activities.waits > 0);
    assert_eq!(first.own, 400 * PERIOD_NS);
    assert!(first.total.abs_diff(first.own + waiting / 2) <= 1);
    assert_eq!(first.gil_held, first.own);
    let all: u64 = table.rows.iter().map(|row| row.gil_held).sum();
    assert_eq!(all, example().total_value());
    // Waits are in the trend if the table is sorted by them.
    let trend = |table: &Table| *table.rows[0].trend.last().unwrap();
    let with_waits = by(Sort::Total);
    assert_eq!(with_waits.rows[0].total, first.total);
    assert!(trend(&with_waits) > trend(&table));
}

#[test]
fn a_function_that_no_longer_runs_keeps_its_time_since_the_start() {
    let mut history = history();
    let mut functions = Functions::default();
    let mut empty = example_profile("app.py");
    empty.samples.clear();
    for _ in 0..MAX_WINDOWS {
        history.add(&[empty.clone()], Duration::ZERO, &mut functions);
    }
    let since = Query {
        sort: Sort::SinceStart,
        ..query()
    };
    let rows = Table::new(&history, &since).rows;
    assert_eq!(rows[0].own, 0);
    assert_eq!(rows[0].since_start.unwrap().own, 150 * PERIOD_NS);
    assert!(rows[0].trend.iter().all(|value| *value == 0));
}
