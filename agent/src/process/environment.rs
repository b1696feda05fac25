//! Single variables of a process's environment, from `/proc/PID/environ`.
//!
//! This is the environment at the start of the program: later changes are not visible, and a
//! program that overwrites it (to change its title) leaves arbitrary bytes there.
//!
//! Invariant: an environment holds secrets, so only the requested variables are kept.

use std::io::{self, BufRead, Read as _};

/// Most bytes of an environment that are searched.
const MAX_BYTES: u64 = 1 << 20;

/// Most bytes of a variable with its name; longer ones are skipped.
const MAX_VARIABLE: u64 = 16 << 10;

/// The values of the variables `names`; the first one of a name counts, as for `getenv`.
///
/// # Errors
///
/// Those of reading the environment.
pub fn find<const N: usize>(
    environment: impl BufRead,
    names: [&str; N],
) -> io::Result<[Option<String>; N]> {
    let mut environment = environment.take(MAX_BYTES);
    let mut values = [const { None }; N];
    let mut variable = Vec::new();
    while values.iter().any(Option::is_none) {
        variable.clear();
        let bytes = environment
            .by_ref()
            .take(MAX_VARIABLE)
            .read_until(0, &mut variable)?;
        if bytes == 0 {
            break;
        }
        if variable.pop_if(|last| *last == 0).is_none() {
            environment.skip_until(0)?;
            continue;
        }
        for (name, value) in names.iter().zip(&mut values) {
            let found = variable
                .strip_prefix(name.as_bytes())
                .and_then(|rest| rest.strip_prefix(b"="));
            if let (Some(found), None) = (found, &value) {
                *value = Some(String::from_utf8_lossy(found).into_owned());
            }
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::{MAX_BYTES, MAX_VARIABLE, find};
    use crate::process::Process;
    use proptest::prelude::{any, proptest};
    use std::{
        io::Read as _,
        process::{Command, Stdio},
    };

    fn values<const N: usize>(environment: &[u8], names: [&str; N]) -> [Option<String>; N] {
        find(environment, names).unwrap()
    }

    #[test]
    fn only_requested_variables_are_found() {
        let environment = b"A=1\0AB=2\0B=x=y\0A=3\0C\0D=\0";
        let found = values(environment, ["A", "B", "C", "D", "E"]);
        let found = found.each_ref().map(Option::as_deref);
        assert_eq!(found, [Some("1"), Some("x=y"), None, Some(""), None]);
    }

    #[test]
    fn variables_that_are_too_long_are_skipped() {
        let long = "x".repeat(usize::try_from(MAX_VARIABLE).unwrap());
        let environment = format!("A={long}\0B=1\0");
        let found = values(environment.as_bytes(), ["A", "B"]);
        assert_eq!(found, [None, Some("1".to_owned())]);

        let much = "X=1\0".repeat(usize::try_from(MAX_BYTES / 4).unwrap());
        let environment = format!("{much}A=1\0");
        assert_eq!(values(environment.as_bytes(), ["A"]), [None]);
    }

    #[test]
    fn the_environment_of_a_process_is_read() {
        let mut child = Command::new("sh")
            .args(["-c", "echo; read line"])
            .env("OTEL_SERVICE_NAME", "shop")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // Before the `exec` of the shell the environment may be empty.
        let mut output = child.stdout.take().unwrap();
        output.read_exact(&mut [0]).unwrap();
        let process = Process::open(child.id()).unwrap();
        let [name] = process.variables(["OTEL_SERVICE_NAME"]).unwrap();
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(name.as_deref(), Some("shop"));
    }

    proptest! {
        #[test]
        fn no_environment_makes_it_panic(environment in any::<Vec<u8>>()) {
            let _ = values(&environment, ["A", "", "B"]);
        }
    }
}
