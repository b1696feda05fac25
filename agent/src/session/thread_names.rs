//! The names of threads, as their records come.
//!
//! The function with which a thread begins says whether a name is one of `threading`. It is a record of
//! its own, of another processor or of a later sample where a new program has more code than one sample
//! sends. A stack without its end, and one of a thread that begins or ends, does not have it.

use std::collections::HashMap;

use agent_common::{decoded::ThreadRecord, record::ThreadName};

use crate::{cache::GenerationalCache, symbolize::PythonSymbolizer};

/// Most names that wait for a function; of further threads only the kernel's names are known.
const MAX_UNRESOLVED: usize = 4096;

/// A process and a thread of it.
type Thread = (u32, u32);

/// What is known of the names of threads.
#[derive(Debug, Default)]
pub(super) struct ThreadNames {
    /// The kernel's names of the threads whose first function is known.
    certain: GenerationalCache<Thread, [u8; 16]>,
    /// The last name of each thread whose first function is yet to come.
    unresolved: HashMap<Thread, Unresolved>,
}

#[derive(Debug)]
struct Unresolved {
    head: ThreadName,
    python: Box<[u8]>,
}

impl ThreadNames {
    /// Whether the name of a record is the thread's from now on: that of an incomplete
    /// stack is not, where the first function is known and the kernel's name is the same as then.
    pub(super) fn add(&mut self, record: &ThreadRecord<'_>, python: &PythonSymbolizer) -> bool {
        let head = &record.head;
        let thread = (head.tgid, head.tid);
        if head.is_complete == 0 {
            if self.certain.get(&thread) == Some(&head.comm) {
                return false;
            }
            self.unresolved.remove(&thread);
        } else if python.knows(head.root) {
            self.certain.insert(thread, head.comm);
            self.unresolved.remove(&thread);
        } else if self.unresolved.len() < MAX_UNRESOLVED || self.unresolved.contains_key(&thread) {
            let unresolved = Unresolved {
                head: *head,
                python: record.python.into(),
            };
            self.unresolved.insert(thread, unresolved);
        }
        true
    }

    /// Passes on the names whose functions have come since.
    pub(super) fn resolve(
        &mut self,
        python: &PythonSymbolizer,
        mut take: impl FnMut(&ThreadRecord<'_>),
    ) {
        let Self {
            certain,
            unresolved,
        } = self;
        unresolved.retain(|thread, name| {
            let is_known = python.knows(name.head.root);
            if is_known {
                certain.insert(*thread, name.head.comm);
                take(&ThreadRecord {
                    head: name.head,
                    python: &name.python,
                });
            }
            !is_known
        });
    }

    /// Forgets what was not sent again, as the names themselves are forgotten.
    pub(super) fn rotate(&mut self) {
        self.certain.rotate();
        self.unresolved.clear();
    }
}

#[cfg(test)]
mod tests {
    use agent_common::decoded::ThreadRecord;

    use super::{MAX_UNRESOLVED, ThreadNames};
    use crate::symbolize::{PythonSymbolizer, fixtures};

    fn thread(tid: u32, root: u64) -> ThreadRecord<'static> {
        fixtures::thread(tid, root, "worker")
    }

    fn add_bootstrap(symbol: u64, python: &mut PythonSymbolizer) {
        let function = ("Thread._bootstrap", "/lib/threading.py");
        python.add(&fixtures::code(symbol, function, &[], 0));
    }

    /// The names that are resolved now.
    fn resolved(names: &mut ThreadNames, python: &PythonSymbolizer) -> Vec<(u32, String)> {
        let mut found = Vec::new();
        names.resolve(python, |thread| {
            found.push((thread.head.tid, python.thread_name(thread)));
        });
        found
    }

    #[test]
    fn a_name_waits_for_the_function_with_which_the_thread_begins() {
        let mut python = PythonSymbolizer::default();
        let mut names = ThreadNames::default();
        names.add(&thread(8, 3), &python);
        names.add(&thread(9, 4), &python);
        assert_eq!(resolved(&mut names, &python), []);
        add_bootstrap(3, &mut python);
        let worker = (8, "worker".to_owned());
        assert_eq!(resolved(&mut names, &python), [worker]);
        assert_eq!(resolved(&mut names, &python), []);
    }

    #[test]
    fn a_stack_without_its_end_does_not_take_a_name_away() {
        let mut python = PythonSymbolizer::default();
        let mut names = ThreadNames::default();
        assert!(names.add(&thread(8, 0), &python));
        add_bootstrap(3, &mut python);
        assert!(names.add(&thread(8, 3), &python));
        assert!(!names.add(&thread(8, 0), &python));
        // It runs another program.
        let mut executed = thread(8, 0);
        executed.head.comm = *b"sleep\0\0\0\0\0\0\0\0\0\0\0";
        assert!(names.add(&executed, &python));
        // What the name was is forgotten too.
        names.rotate();
        names.rotate();
        assert!(names.add(&thread(8, 0), &python));
    }

    #[test]
    fn endless_threads_take_bounded_memory() {
        let python = PythonSymbolizer::default();
        let mut names = ThreadNames::default();
        for tid in 0..u32::try_from(2 * MAX_UNRESOLVED).unwrap() {
            names.add(&thread(tid, 3), &python);
        }
        assert_eq!(names.unresolved.len(), MAX_UNRESOLVED);
        names.rotate();
        assert!(names.unresolved.is_empty());
    }
}
