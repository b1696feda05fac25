//! The command line of a process, and the script that an interpreter runs.
//!
//! Invariant: arguments may hold secrets; [`CommandLine::program`] exposes only the last component
//! of the script's path, or the name of the module.

use std::path::Path;

use super::path::file_name;

/// Most bytes of a command line that are read.
pub(super) const MAX_BYTES: usize = 64 << 10;

/// Most arguments that are parsed.
const MAX_ARGUMENTS: usize = 256;

/// Longest name of a script in bytes.
const MAX_NAME: usize = 255;

/// Options of Python that take an argument, besides `-c` and `-m`.
const WITH_ARGUMENT: &[u8] = b"WXQ";

/// Interpreters whose options are not parsed: only the first argument can be the script.
const OTHER_INTERPRETERS: [&str; 9] = [
    "bash", "dash", "node", "nodejs", "perl", "php", "ruby", "sh", "zsh",
];

/// How the modules end by which joblib's `loky` starts its processes: their code is that of whoever has started them.
const LOKY: [&str; 2] = [
    "loky.backend.popen_loky_posix",
    "loky.backend.resource_tracker",
];

/// The command line of a process.
#[derive(Clone, Debug)]
pub struct CommandLine(Vec<u8>);

/// What an interpreter runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// The script or module with this name.
    Named(String),
    /// Code of whoever has started it, as in `python3 -c CODE`.
    OfStarter,
    /// Nothing that has a name, or it is no interpreter.
    Unnamed,
}

impl CommandLine {
    /// Wraps the contents of a file `/proc/PID/cmdline`, possibly truncated.
    #[must_use]
    pub fn new(text: Vec<u8>) -> Self {
        Self(text)
    }

    /// The first 256 arguments.
    pub fn arguments(&self) -> impl Iterator<Item = &[u8]> {
        let text = self.0.strip_suffix(b"\0").unwrap_or(&self.0);
        text.split(|&byte| byte == 0).take(MAX_ARGUMENTS)
    }

    /// The arguments, separated by spaces.
    #[must_use]
    pub fn to_text(&self) -> String {
        let words: Vec<_> = self.arguments().map(String::from_utf8_lossy).collect();
        words.join(" ")
    }

    /// The program in the first argument, which servers replace by a title: `gunicorn: worker [shop]`.
    #[must_use]
    pub fn title(&self) -> String {
        let argument = String::from_utf8_lossy(self.arguments().next().unwrap_or_default());
        let word = argument.split(' ').next().unwrap_or_default();
        let name = word.rsplit('/').next().unwrap_or_default();
        // Shells begin it with a dash at a login.
        let name = name.strip_prefix('-').unwrap_or(name);
        name.trim_end_matches(':').to_owned()
    }

    /// What it runs, if `executable` is an interpreter.
    ///
    /// `python3 /srv/shop/manage.py`, `python3 -m shop.manage` and a program that starts with
    /// `#!/usr/bin/python3` have a name. Python's suffixes are removed; `__main__.py` is replaced by the name of its
    /// directory. Of a title that has replaced the command line, as `gunicorn: worker [shop]`, the first word counts.
    #[must_use]
    pub fn program(&self, executable: &Path) -> Program {
        let interpreter = str::from_utf8(file_name(executable)).unwrap_or_default();
        let mut arguments = self.arguments();
        let first = arguments.next().unwrap_or_default();
        if is_python(interpreter) {
            // Paths of interpreters have no spaces.
            let title = first.contains(&b' ').then(|| self.title());
            let title = title.and_then(|title| name(title.trim_start_matches('[').as_bytes()));
            let title = title.filter(|title| !is_python(title));
            return title.map_or_else(|| python_program(arguments), Program::Named);
        }
        let script = arguments.next().filter(|first| {
            OTHER_INTERPRETERS.contains(&interpreter) && first.first() != Some(&b'-')
        });
        Program::named(script.and_then(last_part))
    }
}

impl Program {
    fn named(name: Option<String>) -> Self {
        name.map_or(Self::Unnamed, Self::Named)
    }

    fn module(name: Option<String>) -> Self {
        match name {
            Some(module) if LOKY.iter().any(|it| module.ends_with(it)) => Self::OfStarter,
            name => Self::named(name),
        }
    }
}

/// Matches `python`, `python3.12`, `python3.13t-dbg`, `pypy3` …
fn is_python(name: &str) -> bool {
    let version = name
        .strip_prefix("python")
        .or_else(|| name.strip_prefix("pypy"));
    version.is_some_and(|rest| rest.bytes().next().is_none_or(|byte| byte.is_ascii_digit()))
}

fn python_program<'a>(mut arguments: impl Iterator<Item = &'a [u8]>) -> Program {
    while let Some(argument) = arguments.next() {
        let Some(options) = argument.strip_prefix(b"-") else {
            return Program::named(python_file(argument));
        };
        if options == b"-" {
            return Program::named(arguments.next().and_then(python_file));
        }
        if options == b"-check-hash-based-pycs" {
            arguments.next();
            continue;
        }
        if options.is_empty() || options.starts_with(b"-") {
            // The program is read from the standard input, or there is none (`--version`).
            return Program::Unnamed;
        }
        // Combined short options, the last of which may have an argument.
        let with_argument = |letter: &u8| WITH_ARGUMENT.contains(letter) || b"cm".contains(letter);
        let Some(at) = options.iter().position(with_argument) else {
            continue;
        };
        let attached = &options[at + 1..];
        let value = if attached.is_empty() {
            arguments.next()
        } else {
            Some(attached)
        };
        match options[at] {
            b'c' => return Program::OfStarter,
            b'm' => return Program::module(value.and_then(name)),
            _ => {}
        }
    }
    Program::Unnamed
}

/// The name of a script without the suffix of Python files.
fn python_file(path: &[u8]) -> Option<String> {
    let script = last_part(path)?;
    if script == "__main__.py" {
        let directory = path.strip_suffix(b"__main__.py")?;
        return last_part(directory).or(Some(script));
    }
    let stem = [".py", ".pyc", ".pyz"]
        .iter()
        .find_map(|suffix| script.strip_suffix(suffix));
    Some(match stem {
        Some(stem) if !stem.is_empty() => stem.to_owned(),
        _ => script,
    })
}

/// The last component of a path.
fn last_part(path: &[u8]) -> Option<String> {
    name(
        path.rsplit(|&byte| byte == b'/')
            .find(|part| !part.is_empty())?,
    )
}

fn name(bytes: &[u8]) -> Option<String> {
    let is_name = !bytes.is_empty() && bytes.len() <= MAX_NAME;
    is_name.then(|| String::from_utf8_lossy(bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::{CommandLine, Program};
    use proptest::prelude::{any, proptest};
    use std::path::Path;

    fn program(executable: &str, words: &str) -> Program {
        let text = words.replace(' ', "\0") + "\0";
        CommandLine::new(text.into_bytes()).program(Path::new(executable))
    }

    fn named(name: &str) -> Program {
        Program::Named(name.to_owned())
    }

    #[track_caller]
    fn check(words: &str, name: Option<&str>) {
        let expected = name.map_or(Program::Unnamed, named);
        assert_eq!(program("/usr/bin/python3.12", words), expected);
    }

    #[test]
    fn a_script_is_named_without_its_arguments() {
        check("python3 /srv/shop/manage.py runserver", Some("manage"));
        check("python3 /usr/bin/gunicorn shop:app", Some("gunicorn"));
        check("python3 -u -B server.pyc --key=secret", Some("server"));
        check("python3 -uB -W ignore -X dev a/b/ x", Some("b"));
        check("python3 -Wignore -Xdev app.pyz", Some("app"));
        check("python3 --check-hash-based-pycs never x.py", Some("x"));
        check("python3 /srv/shop/__main__.py", Some("shop"));
        check("python3 __main__.py", Some("__main__.py"));
        check("python3 -- x.py", Some("x"));
        check("python3 .py", Some(".py"));
    }

    #[test]
    fn a_module_is_named() {
        check("python3 -m http.server 8000", Some("http.server"));
        check("python3 -Im celery -A secret", Some("celery"));
        check("python3 -umuvicorn app", Some("uvicorn"));
    }

    #[test]
    fn other_programs_have_no_name() {
        check("python3", None);
        check("python3 -", None);
        check("python3 --version x", None);
        check("python3 -m", None);
        for (executable, words) in [
            ("/usr/bin/python-config", "x y"),
            ("/usr/sbin/nginx", "nginx secret"),
            ("/bin/sh", "sh -c secret"),
            ("/bin/sh", "sh"),
        ] {
            assert_eq!(program(executable, words), Program::Unnamed);
        }
        let shell = program("/bin/sh", "sh ./run.sh secret");
        assert_eq!(shell, named("run.sh"));
    }

    #[test]
    fn titles_begin_with_the_program() {
        for (argument, name) in [
            ("/usr/bin/python3", "python3"),
            ("gunicorn: worker [a/b]", "gunicorn"),
            ("-bash", "bash"),
            ("", ""),
        ] {
            let line = CommandLine::new(argument.as_bytes().to_vec());
            assert_eq!(line.title(), name);
        }
    }

    #[test]
    fn a_title_is_what_an_interpreter_runs() {
        for (title, name) in [
            ("gunicorn: master [shop]\0\0\0", named("gunicorn")),
            (
                "[celeryd: celery@host:MainProcess] -active-\0",
                named("celeryd"),
            ),
            (
                "airflow scheduler -- DagFileProcessorManager\0",
                named("airflow"),
            ),
            ("/usr/bin/python3 manage.py\0", Program::Unnamed),
            (" : x\0", Program::Unnamed),
        ] {
            let line = CommandLine::new(title.as_bytes().to_vec());
            assert_eq!(line.program(Path::new("/usr/bin/python3.12")), name);
        }
    }

    #[test]
    fn workers_run_what_has_started_them() {
        for words in [
            "python3 -c secret",
            "python3 -Ic secret x.py",
            "python3 -m joblib.externals.loky.backend.popen_loky_posix --pipe 9",
        ] {
            assert_eq!(program("/usr/bin/python3", words), Program::OfStarter);
        }
    }

    proptest! {
        #[test]
        fn no_command_line_makes_it_panic(text in any::<Vec<u8>>()) {
            let line = CommandLine::new(text);
            let _ = (line.to_text(), line.program(Path::new("python3")));
        }

        #[test]
        fn no_words_make_it_panic(words in "(-[-a-zA-Z]{0,4}|[a-z./]{0,9}|(/__main__.py)?| ){0,12}") {
            let _ = program("python3", &words);
        }
    }
}
