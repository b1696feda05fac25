//! Whose turn on the machine it is: tests that want it alone, and tests that share it, two at a time.
//!
//! Tests of one kind go on as long as one of them waits, so that those that share it meet another one, whatever
//! their names: for that, more threads than processors run tests, of which most wait here.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Tests that share the machine at a time.
const SHARED_AT_ONCE: usize = 2;

/// How a test has the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Alone,
    Shared,
}

#[derive(Debug)]
struct Tests {
    running: usize,
    waiting: usize,
}

#[derive(Debug)]
struct State {
    /// That of the tests that run, or ran last.
    kind: Kind,
    alone: Tests,
    shared: Tests,
}

/// Gives turns.
#[derive(Debug)]
pub(crate) struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

/// A turn, until it is dropped.
#[derive(Debug)]
#[must_use]
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
    kind: Kind,
}

impl State {
    fn tests(&mut self, kind: Kind) -> &mut Tests {
        match kind {
            Kind::Alone => &mut self.alone,
            Kind::Shared => &mut self.shared,
        }
    }

    /// Whether a test of this kind may run now.
    fn has_turn(&self, kind: Kind) -> bool {
        let (others, is_free) = match kind {
            Kind::Alone => (&self.shared, self.alone.running == 0),
            Kind::Shared => (&self.alone, self.shared.running < SHARED_AT_ONCE),
        };
        is_free && others.running == 0 && (self.kind == kind || others.waiting == 0)
    }
}

impl Turns {
    pub(crate) const fn new() -> Self {
        const NONE: Tests = Tests {
            running: 0,
            waiting: 0,
        };
        Self {
            state: Mutex::new(State {
                kind: Kind::Alone,
                alone: NONE,
                shared: NONE,
            }),
            changed: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A test that failed has changed nothing here.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a turn.
    pub(crate) fn take(&self, kind: Kind) -> Turn<'_> {
        let mut state = self.state();
        state.tests(kind).waiting += 1;
        let mut state = self
            .changed
            .wait_while(state, |state| !state.has_turn(kind))
            .unwrap_or_else(PoisonError::into_inner);
        state.kind = kind;
        let tests = state.tests(kind);
        tests.waiting -= 1;
        tests.running += 1;
        drop(state);
        Turn { turns: self, kind }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turns.state().tests(self.kind).running -= 1;
        self.turns.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(kind: Kind, alone: (usize, usize), shared: (usize, usize)) -> State {
        let tests = |(running, waiting)| Tests { running, waiting };
        State {
            kind,
            alone: tests(alone),
            shared: tests(shared),
        }
    }

    #[test]
    fn a_test_that_wants_the_machine_alone_has_it() {
        for running in [(1, 0), (1, 1)] {
            let state = state(Kind::Alone, running, (0, 1));
            assert!(!state.has_turn(Kind::Alone) && !state.has_turn(Kind::Shared));
        }
        let state = state(Kind::Shared, (0, 1), (1, 0));
        assert!(!state.has_turn(Kind::Alone));
    }

    #[test]
    fn tests_that_share_it_go_on_in_pairs() {
        let state = |running, waiting| state(Kind::Shared, (0, 3), (running, waiting));
        assert!(state(1, 1).has_turn(Kind::Shared));
        assert!(!state(2, 1).has_turn(Kind::Shared));
        assert!(state(0, 1).has_turn(Kind::Shared) && !state(0, 1).has_turn(Kind::Alone));
        assert!(state(0, 0).has_turn(Kind::Alone));
    }

    #[test]
    fn whoever_waits_has_a_turn_when_the_others_have_ended() {
        static TURNS: Turns = Turns::new();
        let turn = TURNS.take(Kind::Shared);
        let second = TURNS.take(Kind::Shared);
        let alone = std::thread::spawn(|| drop(TURNS.take(Kind::Alone)));
        drop((turn, second));
        alone.join().unwrap();
        drop(TURNS.take(Kind::Shared));
    }
}
