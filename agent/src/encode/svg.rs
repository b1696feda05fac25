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
/// Of processes.
const PROCESS: Color = grey(205);
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

/// The process; of several the first and how many more there are.
fn title(profile: &Profile) -> String {
    let Some(first) = profile.processes.first() else {
        return "No process".to_owned();
    };
    let first_text = format!("{} (pid {})", printable(&first.name), first.pid);
    match profile.processes.len() - 1 {
        0 => first_text,
        1 => format!("{first_text} and 1 more process"),
        more => format!("{first_text} and {more} more processes"),
    }
}

/// The runtime, if all processes have the same, and the samples.
fn subtitle(profile: &Profile) -> String {
    let mut runtimes = profile.processes.iter().map(|process| &*process.runtime);
    let first = runtimes.next().unwrap_or_default();
    let runtime = if first.is_empty() || runtimes.any(|runtime| runtime != first) {
        String::new()
    } else {
        format!("{} · ", printable(first))
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
        let Some(line) = location.lines.first() else {
            continue;
        };
        let function = profile.function(line.function);
        if function.kind == FrameKind::Marker {
            palette.insert(frame, MARKER);
        } else if function.file.starts_with("<frozen ") {
            palette.insert(frame, FROZEN);
        }
    }
    for process in frames.processes.iter().flatten() {
        palette.insert(process, PROCESS);
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
    use crate::encode::support::{assert_golden, made_processes, made_profile};

    fn svg(profile: &Profile, threads: bool) -> String {
        let mut bytes = Vec::new();
        write(profile, Options { threads }, &mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_flame_graph_is_drawn() {
        for (name, profile) in [
            ("made.svg.txt", made_profile("/srv/app/main.py")),
            ("processes.svg.txt", made_processes("/srv/app/main.py")),
        ] {
            let text = svg(&profile, true);
            // The frames; what stands before them is inferno's script.
            let frames = &text[text.find(r#"<svg id="frames""#).unwrap()..];
            assert_golden(name, &frames.replace("<g>", "\n<g>"));
        }
    }

    #[test]
    fn processes_stand_side_by_side() {
        let text = svg(&made_processes("/srv/app/main.py"), false);
        assert!(text.contains(">python3.12 (pid 4242) and 2 more processes<"));
        assert!(text.contains(">467 samples in 10.0 s<"));
        for (process, samples) in [("python3.12 (4242)", 350), ("python2.7 (4300)", 110)] {
            let (_, after) = text
                .split_once(&format!("<title>{process} ({samples} samples"))
                .unwrap();
            let fill = after.split("fill=").nth(1).unwrap();
            assert!(fill.starts_with("\"rgb(205,205,205)\""), "{fill}");
        }
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
        "<b>&\"\u{0}\u{1b}\u{fffe}".clone_into(&mut profile.processes[0].name);
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
