//! Records of the ring buffer: decoded, aggregated, and built into profiles of all kinds.
//!
//! A run's bytes are records, each after its size. The header of each is made to fit.

use std::time::{Duration, SystemTime};

use agent::{
    fuzzing::aggregate::{Counting, Executables, Filter, ProfileTiming, Profiles, Received},
    testing::{
        formats::{EncodeOptions, Format, encode},
        profile::{Kind, Periods},
    },
};

use crate::input::Input;

/// Most bytes of a record.
const MOST: usize = 16 << 10;

pub(super) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut counting = Counting::default();
    let mut profiles = Profiles::new(None, Executables::default());
    let mut received = Received::default();
    while !input.is_empty() {
        let (kind, exact) = (input.byte(), input.byte());
        let body = input.sized();
        let body = &body[..body.len().min(MOST)];
        let bytes = if exact == 0 { body.len() + 8 } else { exact.into() };
        let mut record = [u16::from(kind).to_le_bytes(), [0; 2]].concat();
        record.extend(u32::try_from(bytes).unwrap_or(0).to_le_bytes());
        record.extend(body);
        counting.receive(&record, &mut received);
    }
    profiles.receive(&received.references);
    let window = counting.windows.take();
    for kind in Kind::ALL {
        let about = ProfileTiming {
            kind,
            start: SystemTime::UNIX_EPOCH,
            duration: Duration::from_secs(1),
            periods: Periods::new(100, None),
        };
        let profile = profiles.profile_of(&window, &about, &Filter::default());
        for format in Format::ALL {
            let _ = encode(&profile, format, EncodeOptions::default(), &mut Vec::new());
        }
    }
    profiles.rotate();
}
