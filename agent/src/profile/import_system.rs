//! The import system, which is written in Python and has frames of its own.
//!
//! Where a module imports another one, there are about ten of them in between: five functions and how the interpreter
//! calls them. Python itself leaves them out of the tracebacks of what imported modules raise
//! (`remove_importlib_frames` in CPython's `Python/import.c`).

use super::location::{FrameKind, Function};

/// The files of which it consists.
const FILES: [&str; 2] = [
    "<frozen importlib._bootstrap>",
    "<frozen importlib._bootstrap_external>",
];

/// The function of it that runs modules, and does nothing else.
const CALLS: &str = "_call_with_frames_removed";

impl Function {
    /// Whether it is one of the import system's.
    #[must_use]
    pub fn is_of_import_system(&self) -> bool {
        self.kind == FrameKind::Python && FILES.contains(&&*self.file)
    }

    /// Whether it is the one of them that runs modules.
    #[must_use]
    pub fn runs_modules(&self) -> bool {
        self.is_of_import_system() && self.name == CALLS
    }
}
