//! The script or module that a process runs, also if it is a worker of another one.

use super::{CommandLine, command_line::Program, procfs::Process};

/// Most processes that are asked: a worker may have been started by a worker.
const MAX_PROCESSES: usize = 8;

impl Process {
    /// The name of the script or module that it runs, if it is an interpreter with this command line.
    ///
    /// A Python that runs code which its parent has given to it, as the workers of `multiprocessing`, joblib and
    /// pytest-xdist do, is part of what the parent runs, if that is the same interpreter.
    #[must_use]
    pub fn script(&self, line: &CommandLine) -> Option<String> {
        let mut program = line.program(self.executable());
        let mut parent = self.parent();
        for _ in 1..MAX_PROCESSES {
            if program != Program::OfStarter {
                break;
            }
            let starter = Self::open(parent?).ok()?;
            if starter.executable() != self.executable() {
                return None;
            }
            program = starter.command_line().ok()?.program(starter.executable());
            parent = starter.parent();
        }
        match program {
            Program::Named(name) => Some(name),
            Program::OfStarter | Program::Unnamed => None,
        }
    }
}
