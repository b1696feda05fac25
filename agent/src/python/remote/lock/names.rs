//! The name of a variable that refers to a lock.
//!
//! ```text
//! variables of the callers ──► attributes, entries ──► their attributes, entries …
//! variables of their modules ─┘
//! ```
//!
//! What is nearest is looked at first, and before all else what the code of the callers itself mentions: of that it
//! can be followed far.
//!
//! Invariants: all was read, so that a name is proved; how many objects and entries are looked at is bounded.

use std::collections::HashSet;

use agent_common::memory::{UserAddr, UserMemory};

use super::{
    Lock, LockReader,
    entries::{Entry, Key, MAX_GLOBALS, Part},
    frame::Frame,
    frames::Variable,
};

/// Most objects that are looked at, and most of those to which one of them refers.
const MAX_PLACES: usize = 512;
const MAX_INNER: usize = 64;

/// Most objects on the way from a variable to a lock that is no variable itself: by names that the code mentions, and
/// by any.
const MENTIONED_DEPTH: u32 = 4;
const DEPTH: u32 = 2;

/// Classes of locks that have their word as their first field, in newer versions.
const WITH_WORD: [&str; 2] = ["_thread.lock", "_thread.RLock"];

/// What the name of an entry has whose key is no string and no integer.
const OTHER_KEY: &str = "...";

/// Where a variable may refer to a lock.
struct Scope {
    /// The variables of a function.
    variables: Vec<Variable>,
    /// The dictionary of its module.
    globals: UserAddr,
}

/// An object that may refer to a lock.
#[derive(Clone, Copy)]
struct Place {
    object: UserAddr,
    /// Whether it is the dictionary of the module of a function.
    is_globals: bool,
    /// What has led to it: the object at this place, if it is no variable, by an entry.
    parent: Option<usize>,
    entry: Entry,
    depth: u32,
}

impl<M: UserMemory> LockReader<'_, M> {
    /// The name of a variable that refers to a lock, and how much was looked at: at most [`Self::MAX_ENTRIES`]. Finds
    /// out which object the lock is where that is not known yet.
    pub fn name(&mut self, lock: &mut Lock) -> (Option<String>, u32) {
        self.entries_left = Self::MAX_ENTRIES;
        let name = self.variable(lock);
        (name, Self::MAX_ENTRIES - self.entries_left)
    }

    fn variable(&mut self, lock: &mut Lock) -> Option<String> {
        self.find_operand(lock);
        let callers = std::mem::take(&mut lock.callers);
        let internal = lock.internal_caller.take();
        self.variable_of(lock, &callers)
            .or_else(|| self.variable_of(lock, internal.as_slice()))
    }

    /// The same, by the variables of these functions.
    fn variable_of(&mut self, lock: &mut Lock, callers: &[Frame]) -> Option<String> {
        let mut mentioned = HashSet::new();
        let mut scopes = Vec::new();
        for frame in callers {
            mentioned.extend(self.mentioned(frame).into_iter().map(|name| name.0));
            scopes.push(Scope {
                variables: self.variables(frame),
                globals: self.globals(frame).unwrap_or(UserAddr(0)),
            });
        }
        // It may be an argument, or another variable.
        for variable in scopes.iter().flat_map(|scope| &scope.variables) {
            self.is(lock, variable.value);
        }
        self.search(lock, &scopes, Some(&mentioned))
            .or_else(|| self.search(lock, &scopes, None))
    }

    /// Finds out which object the lock is by what the function that waits has on its value stack: the lock, or a method
    /// of it. Some have their word within.
    fn find_operand(&mut self, lock: &mut Lock) {
        let operands = std::mem::take(&mut lock.operands);
        if lock.is_object || lock.is_on_own_stack {
            return;
        }
        let around = lock.address.wrapping_sub(self.body(UserAddr(0)).0);
        let around = UserAddr(around);
        if self.has_word_within(around) && self.is(lock, around) {
            return;
        }
        for operand in operands {
            let object = self.bound_to(operand).unwrap_or(operand);
            if self.is(lock, object) {
                return;
            }
        }
    }

    /// Whether an object is a lock of a class some of which have their word within.
    fn has_word_within(&self, object: UserAddr) -> bool {
        let class = object
            .could_be_structure()
            .then(|| self.full_class_name(object));
        let class = class.flatten();
        class.is_some_and(|class| WITH_WORD.contains(&&*class))
    }

    /// The name of a variable that leads to a lock, by what the code mentions or by any names.
    fn search(
        &mut self,
        lock: &mut Lock,
        scopes: &[Scope],
        mentioned: Option<&HashSet<u64>>,
    ) -> Option<String> {
        let depth = if mentioned.is_some() {
            MENTIONED_DEPTH
        } else {
            DEPTH
        };
        let mut places = roots(scopes);
        let mut seen: HashSet<u64> = places.iter().map(|place| place.object.0).collect();
        let mut next = 0;
        while let Some(place) = places.get(next).copied()
            && self.entries_left > 0
        {
            let entries = if place.is_globals {
                self.dictionary(place.object, MAX_GLOBALS, Part::Variable)
            } else {
                self.entries(place.object, mentioned.is_some())
            };
            let mut inner = 0;
            for entry in entries.into_iter().filter(|it| is_wanted(it, mentioned)) {
                if self.is(lock, entry.value)
                    && let Some(name) = self.full_name(&places, next, &entry)
                {
                    return Some(name);
                }
                if place.depth + 1 < depth
                    && inner < MAX_INNER
                    && places.len() < MAX_PLACES
                    && seen.insert(entry.value.0)
                {
                    inner += 1;
                    places.push(Place {
                        object: entry.value,
                        is_globals: false,
                        parent: Some(next),
                        entry,
                        depth: place.depth + 1,
                    });
                }
            }
            next += 1;
        }
        None
    }

    /// What an entry of the object at a place is called: `Pool.jobs`, `locks["orders"]`.
    fn full_name(&mut self, places: &[Place], place: usize, entry: &Entry) -> Option<String> {
        let container = |reader: &mut Self| {
            let place = places.get(place)?;
            reader.full_name(places, place.parent.unwrap_or(usize::MAX), &place.entry)
        };
        Some(match entry.part {
            Part::Variable => self.key_text(entry.key)?,
            Part::Attribute(class) => {
                let class = self.name_of_class(class)?;
                format!("{class}.{}", self.key_text(entry.key)?)
            }
            Part::OfModule => format!("{}.{}", container(self)?, self.key_text(entry.key)?),
            Part::Item => format!("{}[{}]", container(self)?, self.item_text(entry.key)),
        })
    }

    /// A key that is a string, as it need not be of a dictionary that has no variables.
    pub(super) fn key_text(&mut self, key: Key) -> Option<String> {
        match key {
            Key::Object(key) => {
                let class = self.full_class_name(key)?;
                let is_text = ["str", "unicode"].contains(&&*class);
                is_text.then(|| self.text(key))?
            }
            Key::Characters(characters) => Some(self.characters(characters)),
            Key::Index(_) => None,
        }
    }

    fn item_text(&mut self, key: Key) -> String {
        let text = self.key_text(key).map(|text| format!("\"{text}\""));
        let number = match key {
            Key::Object(key) => self.integer(key).map(|number| number.to_string()),
            Key::Index(nth) => Some(nth.to_string()),
            Key::Characters(_) => None,
        };
        text.or(number).unwrap_or_else(|| OTHER_KEY.to_owned())
    }
}

/// Whether it is mentioned, or need not be.
fn is_wanted(entry: &Entry, mentioned: Option<&HashSet<u64>>) -> bool {
    match (entry.part, entry.key, mentioned) {
        (
            Part::Variable | Part::Attribute(_) | Part::OfModule,
            Key::Object(name),
            Some(mentioned),
        ) => mentioned.contains(&name.0),
        // The keys of items are no names, and the names of slots no objects; there are few.
        _ => true,
    }
}

/// Where a search begins: first arguments and modules of functions, then their other variables.
fn roots(scopes: &[Scope]) -> Vec<Place> {
    let place = |is_globals, Variable { name, value }| Place {
        object: value,
        is_globals,
        parent: None,
        entry: Entry {
            key: Key::Object(name),
            value,
            part: Part::Variable,
        },
        depth: 0,
    };
    let mut places = Vec::new();
    let mut seen = HashSet::new();
    for scope in scopes {
        let first = scope.variables.first();
        places.extend(first.map(|first| place(false, *first)));
        let globals = Variable {
            name: UserAddr(0),
            value: scope.globals,
        };
        places.push(place(true, globals));
    }
    let others = scopes
        .iter()
        .flat_map(|scope| scope.variables.iter().skip(1));
    places.extend(others.map(|other| place(false, *other)));
    places.retain(|place| seen.insert(place.object.0));
    places
}
