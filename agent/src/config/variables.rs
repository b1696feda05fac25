//! Environment variables that look like those of keys, and configure nothing.
//!
//! They are no errors: Kubernetes sets variables for each service, of which those of a service `agent` begin alike, and
//! so do other programs.

use super::{
    keys::{KEYS, Key, VARIABLE_PREFIX},
    nearest::nearest,
};
use crate::text::{plural, printable, shortened};

/// Most variables that are named.
const MAX_NAMED: usize = 16;

/// Columns of a name.
const NAME_WIDTH: usize = 60;

/// Protocols in the variables of services.
const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];

/// A sentence about each of these variables that configures nothing.
pub(super) fn warnings(variables: &[(String, String)]) -> Vec<String> {
    let unknown = variables.iter().filter_map(|(name, value)| {
        let key = name.strip_prefix(VARIABLE_PREFIX)?.to_lowercase();
        let is_known = KEYS.iter().any(|known| known.variable() == *name);
        (!is_known && !is_of_service(name, value)).then_some((name, key))
    });
    let unknown: Vec<_> = unknown.collect();
    let named = unknown.iter().take(MAX_NAMED);
    let mut warnings: Vec<_> = named.map(|(name, key)| warning(name, key)).collect();
    match unknown.len().saturating_sub(MAX_NAMED) {
        0 => {}
        more => {
            let variables = plural(more as u64, "variable", "variables");
            warnings.push(format!(
                "{more} more environment {variables} that begin with {VARIABLE_PREFIX} configure nothing"
            ));
        }
    }
    warnings
}

/// About a variable of something that is no key.
fn warning(name: &str, key: &str) -> String {
    let meant = nearest(key, KEYS.iter().map(|known| known.name));
    let meant = KEYS.iter().find(|known| Some(known.name) == meant);
    let advice = match meant.map(Key::variable) {
        Some(variable) => format!("did you mean {variable}?"),
        None => "`agent run --help` lists the keys that have variables".to_owned(),
    };
    let name = shortened(&printable(name), NAME_WIDTH).into_owned();
    format!("the environment variable {name} configures nothing: {advice}")
}

/// Whether Kubernetes sets it for a service, or Docker for a link: `AGENT_SERVICE_HOST`,
/// `AGENT_WEB_SERVICE_PORT_HTTP`, `AGENT_PORT=tcp://10.0.0.1:80`, `AGENT_PORT_80_TCP_ADDR`.
fn is_of_service(name: &str, value: &str) -> bool {
    let is_address = name.ends_with("_PORT") && value.contains("://");
    let words: Vec<_> = name.split('_').collect();
    let is_port = |words: &[&str]| match words {
        ["SERVICE", "HOST" | "PORT", _] => true,
        ["PORT", number, protocol] => {
            number.bytes().all(|byte| byte.is_ascii_digit()) && PROTOCOLS.contains(protocol)
        }
        _ => false,
    };
    let is_service = name.ends_with("_SERVICE_HOST") || name.ends_with("_SERVICE_PORT");
    is_address || is_service || words.windows(3).any(is_port)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Vec<String> {
        let owned = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        warnings(&variables.iter().map(owned).collect::<Vec<_>>())
    }

    #[test]
    fn an_unknown_variable_is_named_with_the_one_that_was_meant() {
        assert_eq!(
            of(&[
                ("AGENT_RATE", "19"),
                ("AGENT_RTAE", "19"),
                ("AGENT_XYZZY", "1"),
                ("NODE_NAME", "worker-1"),
            ]),
            [
                "the environment variable AGENT_RTAE configures nothing: did you mean AGENT_RATE?",
                "the environment variable AGENT_XYZZY configures nothing: `agent run --help` lists the keys \
                 that have variables",
            ]
        );
    }

    #[test]
    fn variables_of_services_are_no_keys() {
        for (name, value) in [
            ("AGENT_SERVICE_HOST", "10.96.0.7"),
            ("AGENT_SERVICE_PORT", "7147"),
            ("AGENT_SERVICE_PORT_HTTP_METRICS", "7147"),
            ("AGENT_PORT", "tcp://10.96.0.7:7147"),
            ("AGENT_PORT_7147_TCP", "tcp://10.96.0.7:7147"),
            ("AGENT_PORT_7147_TCP_PROTO", "tcp"),
            ("AGENT_PORT_7147_TCP_PORT", "7147"),
            ("AGENT_PORT_7147_TCP_ADDR", "10.96.0.7"),
            ("AGENT_PORT_53_UDP", "udp://10.96.0.7:53"),
            ("AGENT_RATE_SERVICE_HOST", "10.96.0.8"),
            ("AGENT_LISTEN_PORT_80_TCP_ADDR", "10.96.0.8"),
        ] {
            assert!(of(&[(name, value)]).is_empty(), "{name}");
            assert!(KEYS.iter().all(|key| key.variable() != name), "{name}");
        }
        for (name, value) in [
            ("AGENT_PORT", "7147"),
            ("AGENT_HTTP_PORT", "7147"),
            ("AGENT_PORT_HTTP_TCP", "7147"),
            ("AGENT_SERVICE_NAME", "web"),
        ] {
            assert_eq!(of(&[(name, value)]).len(), 1, "{name}");
        }
    }

    #[test]
    fn few_are_named() {
        let variables: Vec<_> = (0..20)
            .map(|number| (format!("AGENT_XYZZY_{number}"), String::new()))
            .collect();
        let warnings = warnings(&variables);
        assert_eq!(warnings.len(), MAX_NAMED + 1);
        let last = &warnings[MAX_NAMED];
        assert_eq!(
            last,
            "4 more environment variables that begin with AGENT_ configure nothing"
        );
    }
}
