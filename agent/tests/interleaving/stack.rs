//! Native and Python frames of one stack, and whether their order is right.

use std::fmt;

use agent::testing::python::{Version, remote::ThreadStack};
use test_support::{debugger, unwinder};

/// Prefix of the functions of single instructions in the tail-call interpreter; they have a frame
/// above that of the loop, which calls the first one.
const TAIL_CALL: &str = "_TAIL_CALL_";

/// Prefixes of the functions by which the evaluation loop up to 3.10 calls a Python function. C
/// code calls some of them too, but then has a frame of its own.
const CALLS: [&str; 8] = [
    "_PyEval_",
    "_PyFunction_",
    "_PyObject_",
    "PyEval_",
    "call_function",
    "do_call",
    "fast_function",
    "function_code_fastcall",
];

/// Names of functions of an interpreter.
pub(super) struct Names {
    evaluation_loop: &'static str,
}

impl Names {
    pub(super) fn of(version: Version) -> Self {
        Self {
            evaluation_loop: if version.major == 2 {
                "PyEval_EvalFrameEx"
            } else {
                "_PyEval_EvalFrameDefault"
            },
        }
    }

    /// Whether a function is an evaluation loop, or a part of one.
    pub(super) fn is_loop(&self, name: &str) -> bool {
        let rest = name.strip_prefix(self.evaluation_loop);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            || name.starts_with(TAIL_CALL)
    }
}

/// A stack.
pub(super) struct Stack {
    /// Leaf first.
    pieces: Vec<Piece>,
    /// Python frames outside of them.
    without_loop: usize,
    /// Whether it is truncated.
    is_cut: bool,
}

/// A native frame.
struct Piece {
    /// Its function, as named by gdb.
    name: String,
    /// The Python functions whose frames replace it, leaf first.
    runs: Option<Vec<String>>,
}

impl Stack {
    /// Joins native frames, as reported by gdb and by the walk, with those of Python.
    pub(super) fn join(
        reported: &[debugger::Frame],
        walked: &[unwinder::Frame],
        python: &ThreadStack,
        is_cut: bool,
    ) -> Self {
        let mut functions = python.frames.iter().map(|frame| {
            let function = frame.function.as_ref();
            function.map_or("?", |function| &function.name).to_owned()
        });
        let mut take = |count: u32| functions.by_ref().take(count as usize).collect();
        let pieces = reported
            .iter()
            .zip(walked)
            .map(|(reported, walked)| Piece {
                name: reported.name.clone(),
                runs: walked.runs.map(&mut take),
            })
            .collect();
        Self {
            pieces,
            without_loop: functions.count(),
            is_cut,
        }
    }

    /// The frames in the wrong place.
    ///
    /// `runs_one`: a loop runs one Python function. `is_named`: all functions of the interpreter
    /// have symbols.
    pub(super) fn faults(&self, names: &Names, runs_one: bool, is_named: bool) -> Vec<String> {
        let mut faults = Vec::new();
        if self.without_loop != 0 && !self.is_cut {
            faults.push(format!(
                "{} Python frames are in no loop",
                self.without_loop
            ));
        }
        for (nth, piece) in self.pieces.iter().enumerate() {
            let callers = &self.pieces[nth + 1..];
            let Piece { name, runs } = piece;
            let Some(functions) = runs else {
                let is_first_of_loop = callers.first().is_some_and(|caller| caller.runs.is_some());
                let is_instruction = name.starts_with(TAIL_CALL) && is_first_of_loop;
                if names.is_loop(name) && !is_instruction {
                    faults.push(format!("frame {nth}, {name}, is one of a loop"));
                }
                continue;
            };
            if is_named && !names.is_loop(name) {
                faults.push(format!("frame {nth}, {name}, is none of a loop"));
            }
            if runs_one && functions.len() != 1 {
                faults.push(format!("frame {nth}, {name}, runs {functions:?}"));
            }
            if !self.is_cut || callers.iter().any(|caller| caller.runs.is_some()) {
                let calls = Calls::to(functions, callers);
                faults.extend(calls.faults(runs_one, is_named));
            }
        }
        faults
    }
}

/// How the functions of a run were called.
struct Calls<'a> {
    /// Leaf first.
    functions: &'a [String],
    /// The native functions through which the first of them was called.
    native: Vec<&'a str>,
}

impl<'a> Calls<'a> {
    fn to(functions: &'a [String], callers: &'a [Piece]) -> Self {
        let native = callers.iter().take_while(|caller| caller.runs.is_none());
        Self {
            functions,
            native: native
                .map(|caller| caller.name.as_str())
                .filter(|name| !name.starts_with(TAIL_CALL))
                .collect(),
        }
    }

    /// The functions with unexpected names.
    fn faults(&self, runs_one: bool, is_named: bool) -> Vec<String> {
        let is_call = |name: &&str| CALLS.iter().any(|call| name.starts_with(call));
        let has_c_code = if is_named {
            !self.native.iter().all(is_call)
        } else {
            !self.native.is_empty()
        };
        let first = self.functions.len().wrapping_sub(1);
        let is_fault = |(nth, function): &(usize, &String)| {
            let name = function.rsplit('.').next().unwrap_or(function);
            let is_by_c = *nth == first && has_c_code;
            if name.starts_with("c_") {
                !is_by_c
            } else if name.starts_with("p_") {
                // Without symbols all frames between two loops may be of the interpreter itself.
                *nth == first && (!runs_one || is_named && has_c_code)
            } else {
                false
            }
        };
        let functions = self.functions.iter().enumerate().filter(is_fault);
        functions
            .map(|(nth, function)| {
                let how = if nth == first {
                    format!("through {:?}", self.native)
                } else {
                    format!("by {}", self.functions[nth + 1])
                };
                format!("{function} was called {how}")
            })
            .collect()
    }
}

impl fmt::Display for Stack {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Piece { name, runs } in &self.pieces {
            match runs {
                Some(functions) => writeln!(formatter, "  {name}: {}", functions.join(", "))?,
                None => writeln!(formatter, "  {name}")?,
            }
        }
        Ok(())
    }
}
