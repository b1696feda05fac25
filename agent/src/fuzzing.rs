//! Parsers of bytes from elsewhere that `agent/fuzz` drives, besides those that the feature `testing`
//! opens; there only with the feature `fuzzing`.
//!
//! Invariant: nothing here does what the agent does not do; it only leads to it.

use std::collections::BTreeMap;

use axum::{
    extract::Query,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri},
};
use bytes::Bytes;

use crate::{daemon::http_server::ProfileQuery, http_client::grpc, profile::Kind};

/// Samples, and what they refer to.
pub mod aggregate {
    pub use crate::{
        aggregate::{Filter, ProfileTiming},
        binaries::executables::Executables,
        session::{Counting, Profiles, Received},
    };
}

/// Core dumps.
pub mod core_dump {
    pub use crate::{binaries::core_dump::CoreDump, threads::core_threads};
}

/// Profiles that are read again.
pub mod formats {
    pub use crate::formats::PprofFile;
}

/// Tasks of asyncio.
pub mod tasks {
    pub use crate::python::remote::tasks::{Sampler, image};
}

/// Texts below `/proc`.
pub mod process {
    pub use crate::process::{
        CommandLine, OpenError, RegularFile, find_variables, fuse::parse_mounts, is_kernel_thread,
        numbers, parent,
    };
}

/// Names and perf maps.
pub mod symbolize {
    pub use crate::symbolize::{
        demangle, go_name, kernel::KernelSymbols, perf_map::PerfMap, stub_name,
    };
}

/// Checks the request target of a request for a profile; returns whether it is valid.
#[must_use]
pub fn profile_request(target: &[u8]) -> bool {
    let Ok(uri) = Uri::try_from(target) else {
        return false;
    };
    let query = Query::<BTreeMap<String, String>>::try_from_uri(&uri);
    query.is_ok_and(|Query(query)| ProfileQuery::parse(query, Kind::ALL).is_ok())
}

/// Reads the response of a gRPC call, whose headers are lines; returns its message.
#[must_use]
pub fn grpc_response(status: u16, headers: &[u8], body: &[u8]) -> Option<Bytes> {
    let header = |line: &[u8]| {
        let colon = line.iter().position(|&byte| byte == b':')?;
        let name = HeaderName::from_bytes(&line[..colon]).ok()?;
        Some((name, HeaderValue::from_bytes(&line[colon + 1..]).ok()?))
    };
    let lines = headers.split(|&byte| byte == b'\n');
    let headers: HeaderMap = lines.filter_map(header).collect();
    let status = StatusCode::from_u16(status).ok()?;
    grpc::read_response(status, headers, Bytes::copy_from_slice(body)).ok()
}
