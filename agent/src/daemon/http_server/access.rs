//! Who is answered over TCP: requests that name this server, and for profiles those with the token.
//!
//! Any user of the host can connect to a port, in a cluster any pod, and the browser of a user
//! connects for every page that it shows. A page of another origin can read responses only if it was
//! loaded from the name in `Host`, which its owner lets resolve to this address: so unknown names are
//! refused, and addresses are not, since they do not resolve to anything.
//!
//! Invariants: without a token there are no profiles over TCP; a token is compared in constant time
//! and is in no message.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::{
        HeaderMap, StatusCode, Version,
        header::{AUTHORIZATION, HOST, WWW_AUTHENTICATE},
        uri::Authority,
    },
    middleware::Next,
    response::{IntoResponse, Response},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use tokio::task::spawn_blocking;

use crate::http_client::SecretSource;

/// Names of this server in requests, besides its addresses and `localhost`.
pub(super) type HostNames = Arc<[String]>;

/// Passes on requests that name this server.
pub(super) async fn check_host(
    State(names): State<HostNames>,
    request: Request,
    next: Next,
) -> Response {
    if is_named(&request, &names) {
        return next.run(request).await;
    }
    let message = "this server has another name than the request: add it to `http_hosts`\n";
    (StatusCode::MISDIRECTED_REQUEST, message).into_response()
}

/// Whether a request names this server.
fn is_named(request: &Request, names: &[String]) -> bool {
    let mut hosts = request.headers().get_all(HOST).iter();
    let host = match (request.uri().authority(), hosts.next(), hosts.next()) {
        // A request to a proxy; it overrides the header.
        (Some(authority), _, None) => Some(authority.clone()),
        (None, Some(host), None) => Authority::try_from(host.as_bytes()).ok(),
        // HTTP/1.0 has none, and no browser speaks it.
        (None, None, None) => return request.version() < Version::HTTP_11,
        _ => None,
    };
    host.is_some_and(|host| is_known(host.host(), names))
}

fn is_known(name: &str, names: &[String]) -> bool {
    let in_brackets = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    if let Some(address) = in_brackets {
        return address.parse::<Ipv6Addr>().is_ok();
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    name.parse::<Ipv4Addr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || names.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// Passes on requests with the token.
pub(super) async fn check_token(
    State(token): State<Option<SecretSource>>,
    request: Request,
    next: Next,
) -> Response {
    let Some(token) = token else {
        let message = "profiles are served at the Unix socket (`socket`); over TCP they need \
                       `http_token_file`\n";
        return (StatusCode::FORBIDDEN, message).into_response();
    };
    let Some(given) = given_token(request.headers()) else {
        return unauthorized();
    };
    // It is read for each request: a new one is in force at once.
    match spawn_blocking(move || token.read()).await {
        Ok(Ok(token)) if token.equals(&given) => next.run(request).await,
        Ok(Ok(_)) => unauthorized(),
        Ok(Err(_)) | Err(_) => {
            let message = "the file of `http_token_file` cannot be used\n";
            (StatusCode::SERVICE_UNAVAILABLE, message).into_response()
        }
    }
}

/// The token of a request: that of `Bearer`, or the password of `Basic`, which is all that
/// `go tool pprof` can send.
fn given_token(headers: &HeaderMap) -> Option<Vec<u8>> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, credentials) = value.split_once(' ')?;
    let credentials = credentials.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(credentials.as_bytes().to_vec());
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let pair = STANDARD.decode(credentials).ok()?;
    let colon = pair.iter().position(|byte| *byte == b':')?;
    Some(pair[colon + 1..].to_vec())
}

fn unauthorized() -> Response {
    let message = "this needs the token of `http_token_file`: Authorization: Bearer TOKEN\n";
    let scheme = [(WWW_AUTHENTICATE, "Bearer")];
    (StatusCode::UNAUTHORIZED, scheme, message).into_response()
}

#[cfg(test)]
mod tests {
    use axum::{body::Body, http::header::HeaderName};

    use super::*;

    fn request(target: &str, version: Version, headers: &[(HeaderName, &str)]) -> Request {
        let mut request = Request::builder().uri(target).version(version);
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        request.body(Body::empty()).unwrap()
    }

    #[test]
    fn a_request_names_this_server() {
        let names = ["agent.example".to_owned()];
        let is_named = |hosts: &[&str]| {
            let headers: Vec<_> = hosts.iter().map(|host| (HOST, *host)).collect();
            super::is_named(&request("/metrics", Version::HTTP_11, &headers), &names)
        };
        for host in [
            "127.0.0.1",
            "127.0.0.1:7147",
            "10.1.2.3:7147",
            "[::1]:7147",
            "[fe80::1]",
            "localhost:7147",
            "LocalHost.",
            "agent.example",
            "Agent.Example.:80",
        ] {
            assert!(is_named(&[host]), "{host}");
        }
        for host in [
            "attacker.example",
            "attacker.example:7147",
            "localhost.attacker.example",
            "127.0.0.1.attacker.example",
            "agent.example.attacker.example",
            "127.1",
            "[attacker]",
            "a b",
            "",
        ] {
            assert!(!is_named(&[host]), "{host}");
        }
        assert!(!is_named(&[]));
        assert!(!is_named(&["localhost", "localhost"]));
    }

    #[test]
    fn the_target_overrides_the_header() {
        let is_named = |target: &str, version, host: &[(HeaderName, &str)]| {
            super::is_named(&request(target, version, host), &[])
        };
        let local = [(HOST, "localhost")];
        let v1_1 = Version::HTTP_11;
        assert!(!is_named("http://attacker.example/metrics", v1_1, &local));
        assert!(is_named("http://127.0.0.1:7147/metrics", v1_1, &local));
        assert!(is_named("/metrics", Version::HTTP_10, &[]));
        let attacker = [(HOST, "attacker.example")];
        assert!(!is_named("/metrics", Version::HTTP_10, &attacker));
    }

    #[test]
    fn a_token_is_that_of_bearer_or_the_password_of_basic() {
        let given = |value: &str| {
            let request = request("/", Version::HTTP_11, &[(AUTHORIZATION, value)]);
            given_token(request.headers()).map(|token| String::from_utf8(token).unwrap())
        };
        assert_eq!(given("Bearer abc").as_deref(), Some("abc"));
        assert_eq!(given("bearer  abc ").as_deref(), Some("abc"));
        let basic = format!("Basic {}", STANDARD.encode("agent:a:bc"));
        assert_eq!(given(&basic).as_deref(), Some("a:bc"));
        for value in ["Bearer", "Basic x", "Digest abc", "abc", ""] {
            assert_eq!(given(value), None, "{value}");
        }
        let no_colon = format!("Basic {}", STANDARD.encode("agent"));
        assert_eq!(given(&no_colon), None);
    }
}
