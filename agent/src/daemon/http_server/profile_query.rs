//! What the query of a request for a profile asks for.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    formats::FunctionNames,
    profile::{CPU, Kind},
};

/// Default and greatest duration of a profile, in seconds.
const SECONDS: f64 = 30.0;
const MAX_SECONDS: f64 = 300.0;

/// A valid query.
#[derive(Debug)]
pub struct ProfileQuery {
    /// For how long.
    pub(super) duration: Duration,
    /// What to measure.
    pub(super) kind: &'static Kind,
    /// How functions are named.
    pub(super) function_names: FunctionNames,
    /// Only this process.
    pub(super) pid: Option<u32>,
    /// Only processes with these labels.
    pub(super) labels: Vec<(String, String)>,
}

impl ProfileQuery {
    /// Checks the parameters of a query; `kinds` are sampled. Parameters with other names are labels.
    ///
    /// # Errors
    ///
    /// What is wrong, for the client.
    pub fn parse(
        mut parameters: BTreeMap<String, String>,
        kinds: &[&'static Kind],
    ) -> Result<Self, String> {
        let seconds = match parameters.remove("seconds").map(|text| text.parse()) {
            None => SECONDS,
            Some(Ok(seconds)) if seconds > 0.0 && seconds <= MAX_SECONDS => seconds,
            Some(_) => return Err("seconds must be a number above 0, up to 300".to_owned()),
        };
        let event = parameters.remove("event");
        let event = event.as_deref().unwrap_or(CPU.name);
        let Some(&kind) = kinds.iter().find(|kind| kind.name == event) else {
            let known: Vec<_> = kinds.iter().map(|kind| kind.name).collect();
            return Err(format!("event must be one of {}", known.join(", ")));
        };
        let function_names = match parameters.remove("function_names") {
            None => Some(FunctionNames::default()),
            Some(name) => FunctionNames::from_name(&name),
        };
        let Some(function_names) = function_names else {
            return Err("function_names must be plain or module".to_owned());
        };
        let Ok(pid) = parameters
            .remove("pid")
            .map(|text| text.parse())
            .transpose()
        else {
            return Err("pid must be the id of a process".to_owned());
        };
        Ok(Self {
            duration: Duration::from_secs_f64(seconds),
            kind,
            function_names,
            pid,
            labels: parameters.into_iter().collect(),
        })
    }
}
