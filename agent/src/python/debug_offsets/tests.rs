use super::{DebugOffsets, DebugOffsetsError, Positions, read::COOKIE};
use crate::python::{version::Version, versions::series_of};
use agent_common::{
    layout::Layout,
    limits::{CODE_BYTES, FRAME_BYTES, THREAD_BYTES},
};
use proptest::prelude::{any, prop, proptest};

const VERSION_HEX: u64 = 0x030d_00f0;

fn version() -> Version {
    Version::from_hex(VERSION_HEX).unwrap()
}

fn positions_and_table() -> (Positions, Layout) {
    let series = series_of(version()).unwrap();
    (series.debug_offsets.unwrap(), series.layout)
}

/// The used debug offsets of 3.13.0 on x86-64.
fn of_3_13_0() -> Vec<u64> {
    let mut words = vec![0; 584 / 8];
    words[0] = u64::from_le_bytes(COOKIE);
    words[1] = VERSION_HEX;
    for (position, value) in [
        (24, 283_336),
        (40, 632),
        (48, 194_904),
        (64, 7264),
        (72, 7344),
        (80, 7400),
        (112, 16),
        (152, 304),
        (160, 0),
        (168, 8),
        (176, 16),
        (184, 72),
        (192, 152),
        (208, 232),
        (224, 80),
        (232, 8),
        (240, 0),
        (248, 56),
        (256, 72),
        (264, 70),
        (272, 208),
        (280, 112),
        (296, 128),
        (304, 136),
        (312, 68),
        (344, 200),
        (512, 40),
        (520, 16),
        (528, 32),
        (536, 64),
        (544, 32),
        (552, 16),
        (560, 40),
        (576, 200),
    ] {
        words[position / 8] = value;
    }
    words
}

fn layout_of(words: &[u64]) -> Result<Layout, DebugOffsetsError> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let (positions, table) = positions_and_table();
    DebugOffsets::new(&bytes)
        .ok_or(DebugOffsetsError::Absent)?
        .layout(version(), &positions, &table)
}

#[test]
fn they_agree_with_the_table() {
    assert_eq!(layout_of(&of_3_13_0()), Ok(positions_and_table().1));
}

#[test]
fn moved_fields_are_read() {
    let mut words = of_3_13_0();
    words[312 / 8] = 84;
    words[208 / 8] = 240;
    let layout = layout_of(&words).unwrap();
    assert_eq!(layout.code.first_line, 84);
    assert_eq!(layout.thread.datastack_chunk, 240);
    assert_eq!(layout.thread.datastack_top, 248);
    assert_eq!(layout.thread.bytes, 256);
}

#[test]
fn another_version_is_rejected() {
    let mut words = of_3_13_0();
    words[1] = 0x030e_00f0;
    let found = 0x030e_00f0;
    assert_eq!(
        layout_of(&words),
        Err(DebugOffsetsError::OtherVersion { found })
    );
    words[0] += 1;
    assert_eq!(layout_of(&words), Err(DebugOffsetsError::Absent));
}

#[test]
fn every_value_is_checked() {
    for position in [
        24, 40, 48, 64, 72, 80, 112, 152, 160, 168, 176, 184, 192, 208, 224, 232, 240, 248, 256,
        264, 272, 280, 296, 304, 312, 344, 512, 520, 528, 536, 544, 552, 560, 576,
    ] {
        let mut words = of_3_13_0();
        words[position / 8] = u64::MAX - 7;
        assert!(
            matches!(
                layout_of(&words),
                Err(DebugOffsetsError::Implausible { .. })
            ),
            "at {position}"
        );
    }
    let mut words = of_3_13_0();
    words[184 / 8] = 73;
    assert!(layout_of(&words).is_err(), "a pointer is aligned");
}

#[test]
fn a_truncated_structure_is_rejected() {
    let words = of_3_13_0();
    for length in 1..=560 / 8 {
        assert!(layout_of(&words[..length]).is_err());
    }
}

proptest! {
    #[test]
    fn accepted_layouts_are_in_bounds(
        changes in prop::collection::vec((2..73_usize, 0..600_u64), 0..4),
        wild in prop::collection::vec((2..73_usize, any::<u64>()), 0..2),
    ) {
        let mut words = of_3_13_0();
        for (index, value) in changes.into_iter().chain(wild) {
            words[index] = value;
        }
        if let Ok(layout) = layout_of(&words) {
            assert!(usize::from(layout.thread.bytes) <= THREAD_BYTES);
            assert!(usize::from(layout.frame.bytes) <= FRAME_BYTES);
            assert!(usize::from(layout.code.bytes) <= CODE_BYTES);
            assert!(layout.text.bytes <= 512);
        }
    }
}
