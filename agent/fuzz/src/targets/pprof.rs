//! Profiles that are read again, and those of other tools. A run's bytes are the message, or with the first byte a gzip file.

use std::io::Write as _;

use agent::{
    fuzzing::formats::PprofFile,
    testing::formats::{EncodeOptions, Format, encode},
};
use flate2::{Compression, write::GzEncoder};

pub(super) fn run(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else {
        return;
    };
    let mut packed = Vec::new();
    let file = if *kind == 0 {
        bytes
    } else {
        let mut encoder = GzEncoder::new(&mut packed, Compression::none());
        let _ = encoder.write_all(bytes);
        let _ = encoder.finish();
        &packed
    };
    if let Ok(file) = PprofFile::of_any_tool(file.to_vec())
        && let Ok(read) = file.any_profile(None)
    {
        for format in Format::ALL {
            let _ = encode(
                &read.profile,
                format,
                EncodeOptions::default(),
                &mut Vec::new(),
            );
        }
    }
    let Ok(file) = PprofFile::new(file) else {
        return;
    };
    let head = file.head();
    let Ok(profile) = file.profile() else {
        return;
    };
    // Whatever has a profile has a header, with the same samples.
    let head = head.expect("the header of a profile");
    let total = |of: fn(&agent::testing::profile::Sample) -> u64| -> u64 {
        profile.samples.iter().map(of).sum()
    };
    assert_eq!(head.total.count, total(|sample| sample.count));
    assert_eq!(head.total.value, total(|sample| sample.value));
    for format in Format::ALL {
        let _ = encode(&profile, format, EncodeOptions::default(), &mut Vec::new());
    }
}
