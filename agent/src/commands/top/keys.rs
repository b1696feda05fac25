//! Keys, and what they do.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::choices::{Sort, View};

/// What a key does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Quit,
    /// Stops the agent as a shell's Ctrl-Z does, until it is continued.
    Suspend,
    /// Goes back to where Enter was pressed; at the first table it ends.
    Back,
    /// Opens the row: its callers and callees, its functions.
    Open,
    Move(Move),
    View(View),
    NextView,
    Sort(Sort),
    Pause,
    ToggleNative,
    ToggleInterpreter,
    ToggleEvent,
    /// Forgets the sums since the start.
    Restart,
    Help,
    EditFilter,
    /// Of the filter that is being edited.
    Type(char),
    DeleteCharacter,
    EndEditing,
    DropFilter,
}

/// Where the cursor goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
}

/// Keys and what they do, for the help.
pub(super) const HELP: &[(&str, &str)] = &[
    (
        "1 2 3 4",
        "functions, lines, threads, processes; Tab is the next of these",
    ),
    (
        "Up Down",
        "choose a row; also k and j, Page Up and Page Down, Home and End",
    ),
    (
        "Enter",
        "a function's callers and callees; a thread's or process's functions",
    ),
    ("Esc", "back; at the first table it ends"),
    (
        "s t a",
        "sort by self, by total (threads: with waits), by self since the start",
    ),
    (
        "/",
        "show only rows with a text; Enter keeps it, Esc drops it",
    ),
    (
        "Space",
        "pause: the tables stay as they are, sampling goes on",
    ),
    ("n", "native and kernel functions on or off"),
    ("i", "the interpreter's own functions on or off"),
    ("e", "CPU time, or elapsed time with what threads wait for"),
    ("r", "count again from now on what is shown since the start"),
    ("? q", "this help; end, also Ctrl-C"),
];

/// What a key does, in the filter if `is_editing`.
pub(super) fn action(key: KeyEvent, is_editing: bool) -> Option<Action> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c') => Some(Action::Quit),
            KeyCode::Char('z') => Some(Action::Suspend),
            _ => None,
        };
    }
    let cursor = match key.code {
        KeyCode::Up => Some(Move::Up),
        KeyCode::Down => Some(Move::Down),
        KeyCode::PageUp => Some(Move::PageUp),
        KeyCode::PageDown => Some(Move::PageDown),
        KeyCode::Home => Some(Move::First),
        KeyCode::End => Some(Move::Last),
        _ => None,
    };
    if let Some(cursor) = cursor {
        return Some(Action::Move(cursor));
    }
    if is_editing {
        return Some(match key.code {
            KeyCode::Char(character) => Action::Type(character),
            KeyCode::Backspace => Action::DeleteCharacter,
            KeyCode::Enter => Action::EndEditing,
            KeyCode::Esc => Action::DropFilter,
            _ => return None,
        });
    }
    Some(match key.code {
        KeyCode::Enter => Action::Open,
        KeyCode::Esc | KeyCode::Backspace => Action::Back,
        KeyCode::Tab => Action::NextView,
        KeyCode::Char(character) => return of_character(character),
        _ => return None,
    })
}

fn of_character(character: char) -> Option<Action> {
    Some(match character {
        'q' => Action::Quit,
        '?' | 'h' => Action::Help,
        ' ' => Action::Pause,
        '/' => Action::EditFilter,
        'k' => Action::Move(Move::Up),
        'j' => Action::Move(Move::Down),
        '1' => Action::View(View::Functions),
        '2' => Action::View(View::Lines),
        '3' => Action::View(View::Threads),
        '4' => Action::View(View::Processes),
        's' => Action::Sort(Sort::Own),
        't' => Action::Sort(Sort::Total),
        'a' => Action::Sort(Sort::SinceStart),
        'n' => Action::ToggleNative,
        'i' => Action::ToggleInterpreter,
        'e' => Action::ToggleEvent,
        'r' => Action::Restart,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pressed(code: KeyCode, modifiers: KeyModifiers, is_editing: bool) -> Option<Action> {
        action(KeyEvent::new(code, modifiers), is_editing)
    }

    #[test]
    fn keys_are_text_while_the_filter_is_edited() {
        let q = KeyCode::Char('q');
        assert_eq!(pressed(q, KeyModifiers::NONE, false), Some(Action::Quit));
        assert_eq!(
            pressed(q, KeyModifiers::NONE, true),
            Some(Action::Type('q'))
        );
        let shifted = pressed(KeyCode::Char('Q'), KeyModifiers::SHIFT, true);
        assert_eq!(shifted, Some(Action::Type('Q')));
        for is_editing in [true, false] {
            let end = pressed(KeyCode::Char('c'), KeyModifiers::CONTROL, is_editing);
            assert_eq!(end, Some(Action::Quit));
        }
        assert_eq!(pressed(KeyCode::F(5), KeyModifiers::NONE, false), None);
    }

    #[test]
    fn the_help_has_every_character_that_does_something() {
        let words: Vec<&str> = HELP
            .iter()
            .flat_map(|(keys, text)| [keys, text])
            .flat_map(|text| text.split([' ', ',', ';']))
            .collect();
        for character in ('!'..='~').filter(|it| of_character(*it).is_some() && *it != 'h') {
            let is_listed = words.contains(&&*character.to_string());
            assert!(is_listed, "{character}");
        }
    }
}
