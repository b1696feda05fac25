//! Which running processes a command is about.
//!
//! Invariants: each process is selected once, in the order in which the command line has them; there are at
//! most [`MAX_SELECTED`].

/// Most processes of one command. Each needs a descriptor until it has ended, and its examination.
pub const MAX_SELECTED: usize = 256;

/// What a command line says about the processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessSelection {
    /// By their ids, as the agent sees them.
    pub pids: Vec<u32>,
}

/// Why there are no processes to go on with.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SelectionError {
    /// There are too many.
    #[error(
        "{count} processes are selected, and one command takes at most {MAX_SELECTED}: select fewer, or \
         sample all of the host with `agent run` or `agent top`"
    )]
    TooMany {
        /// How many.
        count: usize,
    },
}

impl ProcessSelection {
    /// Whether nothing is selected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pids.is_empty()
    }

    /// Whether it can only be one process.
    #[must_use]
    pub fn is_one(&self) -> bool {
        let mut pids = self.pids.iter();
        let first = pids.next();
        first.is_some() && pids.all(|pid| Some(pid) == first)
    }

    /// The processes, by their ids.
    ///
    /// # Errors
    ///
    /// When there are too many.
    pub fn find(&self) -> Result<Vec<u32>, SelectionError> {
        let mut found = Vec::new();
        for &pid in &self.pids {
            if !found.contains(&pid) {
                found.push(pid);
            }
        }
        if found.len() > MAX_SELECTED {
            return Err(SelectionError::TooMany { count: found.len() });
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_process_is_selected_once() {
        let selection = ProcessSelection {
            pids: vec![7, 3, 7, 3],
        };
        assert_eq!(selection.find(), Ok(vec![7, 3]));
    }

    #[test]
    fn too_many_are_refused() {
        let most = u32::try_from(MAX_SELECTED).unwrap();
        let pids = |last| ProcessSelection {
            pids: (1..=last).collect(),
        };
        assert!(pids(most).find().is_ok());
        let count = MAX_SELECTED + 1;
        assert_eq!(
            pids(most + 1).find(),
            Err(SelectionError::TooMany { count })
        );
    }
}
