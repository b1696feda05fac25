//! A flame graph, drawn by inferno.
//!
//! Colours tell where code comes from: red for the program's own, aqua for installed packages,
//! yellow for the standard library, grey for what is not a function.

use std::io::{self, Write};

use inferno::flamegraph::{
    self, Direction, Palette, TextTruncateDirection,
    color::{BackgroundColor, Color, MultiPalette, PaletteMap},
};

use super::{Options, folded::Frames, text::printable};
use crate::profile::{FrameKind, Profile};

/// Of markers, such as `[frames left out]`.
const MARKER: Color = grey(190);
/// Of threads, and of the frame below them all.
const THREAD: Color = grey(220);
/// Of modules that are frozen into the interpreter; their files have no folder to tell them by.
const FROZEN: Color = Color {
    r: 200,
    g: 200,
    b: 60,
};

/// What is drawn when there is nothing to draw.
const EMPTY: &str = concat!(
    r#"<?xml version="1.0" standalone="no"?>"#,
    "\n",
    r#"<svg version="1.1" width="1200" height="60" xmlns="http://www.w3.org/2000/svg">"#,
    r#"<text x="50%" y="35" text-anchor="middle" font-family="monospace">No samples</text>"#,
    "</svg>\n",
);

/// Writes the flame graph of a profile.
pub(super) fn write(profile: &Profile, options: Options, out: &mut dyn Write) -> io::Result<()> {
    if profile.total() == 0 {
        return out.write_all(EMPTY.as_bytes());
    }
    let frames = Frames::new(profile, options);
    let lines = frames.lines(profile);
    let mut palette = palette(profile, &frames);

    let mut graph = flamegraph::Options::default();
    graph.title = title(profile);
    graph.subtitle = Some(subtitle(profile));
    // Root on top: of a deep stack a browser shows the part that all samples share.
    graph.direction = Direction::Inverted;
    // A function's name says more than the line at the end.
    graph.text_truncate_direction = TextTruncateDirection::Right;
    graph.bgcolors = Some(BackgroundColor::Grey);
    graph.colors = Palette::Multi(MultiPalette::Python);
    graph.palette_map = Some(&mut palette);
    graph.deterministic = true;
    graph.no_sort = true;
    flamegraph::from_lines(&mut graph, lines.iter().map(String::as_str), out)
}

fn title(profile: &Profile) -> String {
    let process = &profile.process;
    format!("{} (pid {})", printable(&process.name), process.pid)
}

fn subtitle(profile: &Profile) -> String {
    let runtime = match profile.process.runtime.as_str() {
        "" => String::new(),
        runtime => format!("{} · ", printable(runtime)),
    };
    format!(
        "{runtime}{} samples in {:.1} s",
        profile.total(),
        profile.duration.as_secs_f64()
    )
}

/// Colours of the frames that inferno's palette for Python would not tell apart.
fn palette(profile: &Profile, frames: &Frames) -> PaletteMap {
    let mut palette = PaletteMap::default();
    palette.insert("", THREAD);
    for (location, frame) in profile.locations.iter().zip(&frames.locations) {
        let function = &profile.functions[location.function.0 as usize];
        if function.kind == FrameKind::Marker {
            palette.insert(frame, MARKER);
        } else if function.file.starts_with("<frozen ") {
            palette.insert(frame, FROZEN);
        }
    }
    for thread in frames.threads.iter().flatten() {
        palette.insert(thread, THREAD);
    }
    palette
}

const fn grey(level: u8) -> Color {
    Color {
        r: level,
        g: level,
        b: level,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::support::{assert_golden, made_profile};

    fn svg(profile: &Profile, threads: bool) -> String {
        let mut bytes = Vec::new();
        write(profile, Options { threads }, &mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_flame_graph_is_drawn() {
        let text = svg(&made_profile("/srv/app/main.py"), true);
        // The frames; what stands before them is inferno's script.
        let frames = &text[text.find(r#"<svg id="frames""#).unwrap()..];
        assert_golden("made.svg.txt", &frames.replace("<g>", "\n<g>"));
    }

    #[test]
    fn the_title_says_what_was_profiled() {
        let text = svg(&made_profile("/srv/app/main.py"), false);
        assert!(text.contains(">python3.12 (pid 4242)<"));
        assert!(text.contains(">CPython 3.12.1 · 350 samples in 10.0 s<"));
        assert!(text.contains("<title>all (350 samples, 100%)</title>"));
    }

    #[test]
    fn markers_are_grey() {
        let text = svg(&made_profile("/srv/app/main.py"), false);
        let (_, after) = text
            .split_once("<title>[frames left out] (20 samples")
            .unwrap();
        let fill = after.split("fill=").nth(1).unwrap();
        assert!(fill.starts_with("\"rgb(190,190,190)\""), "{fill}");
    }

    #[test]
    fn names_cannot_break_the_markup() {
        let mut profile = made_profile("/srv/app/main.py");
        "<b>&\"\u{0}\u{1b}\u{fffe}".clone_into(&mut profile.process.name);
        let text = svg(&profile, true);
        assert!(text.contains("&lt;b&gt;&amp;"));
        assert!(text.chars().all(|character| {
            matches!(character, '\n' | '\t' | '\r') || !character.is_control()
        }));
        assert!(!text.contains('\u{fffe}'));
    }

    #[test]
    fn no_samples_are_told_in_the_picture() {
        let mut profile = made_profile("/srv/app/main.py");
        profile.samples.clear();
        assert!(svg(&profile, false).contains(">No samples<"));
    }
}
