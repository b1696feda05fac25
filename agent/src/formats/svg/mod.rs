//! A flame graph, drawn by inferno.
//!
//! Colours show the origin of code: red for the program itself, blue-green for installed packages,
//! yellow for the standard library, green for native code, pale green for the interpreter, violet for
//! the kernel, grey for markers. There is a legend.

mod origin;

use std::{
    collections::BTreeSet,
    io::{self, Write},
};

use inferno::flamegraph::{
    self, Direction, TextTruncateDirection,
    color::{BackgroundColor, Color, PaletteMap},
};

use self::origin::CodeOrigin;
use super::{
    folded::{FrameTexts, NO_FRAMES},
    options::EncodeOptions,
};
use crate::profile::{Profile, Unit, ValueSource};
use crate::text::printable;

/// Colour of threads and of the root frame.
const THREAD: Color = grey(220);
/// Colour of processes.
const PROCESS: Color = grey(205);
/// Below so many nanoseconds in all, milliseconds would be too coarse.
const NS_PER_SECOND: u64 = 1_000_000_000;
/// The element of the frames; inferno writes its script, titles and buttons before it.
const FRAMES: &str = r#"<svg id="frames""#;

/// The image of a profile without samples.
const EMPTY: &str = concat!(
    r#"<?xml version="1.0" standalone="no"?>"#,
    "\n",
    r#"<svg version="1.1" width="1200" height="60" xmlns="http://www.w3.org/2000/svg">"#,
    r#"<text x="50%" y="35" text-anchor="middle" font-family="monospace">No samples</text>"#,
    "</svg>\n",
);

/// Writes the flame graph of a profile.
pub(super) fn write(
    profile: &Profile,
    options: EncodeOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    if profile.total() == 0 {
        return out.write_all(EMPTY.as_bytes());
    }
    let frames = FrameTexts::new(profile, options);
    let lines = frames.lines(profile);
    let (mut palette, origins) = palette(profile, &frames);

    let mut graph = flamegraph::Options::default();
    graph.title = title(profile);
    graph.subtitle = Some(subtitle(profile));
    // Root on top: a browser shows the shared part of deep stacks first.
    graph.direction = Direction::Inverted;
    // The name at the start matters more than the line at the end.
    graph.text_truncate_direction = TextTruncateDirection::Right;
    (graph.count_name, graph.factor) = unit(profile);
    graph.bgcolors = Some(BackgroundColor::Grey);
    graph.palette_map = Some(&mut palette);
    graph.deterministic = true;
    graph.no_sort = true;
    // On the line below the subtitle, right-aligned; inferno shows the frame under the pointer on its
    // left.
    let legend = origin::legend(|origin| origins.contains(&origin), graph.font_size * 5 + 4);
    let mut drawn = Vec::new();
    flamegraph::from_lines(&mut graph, lines.iter().map(String::as_str), &mut drawn)?;

    let drawn = String::from_utf8_lossy(&drawn);
    let (head, frames) = drawn.split_at(drawn.find(FRAMES).unwrap_or(drawn.len()));
    out.write_all(head.as_bytes())?;
    if !frames.is_empty() {
        out.write_all(legend.as_bytes())?;
    }
    out.write_all(frames.as_bytes())
}

/// The process; of several the first one and the number of others.
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

/// The runtime, if all processes have the same, the total and the duration.
fn subtitle(profile: &Profile) -> String {
    let mut runtimes = profile.processes.iter().map(|process| &*process.runtime);
    let first = runtimes.next().unwrap_or_default();
    let runtime = if first.is_empty() || runtimes.any(|runtime| runtime != first) {
        String::new()
    } else {
        format!("{} · ", printable(first))
    };
    let plotted = match profile.kind.plotted {
        ValueSource::Count => format!("{} samples", profile.total()),
        ValueSource::Value => {
            let value = profile.kind.unit.text(profile.total_value());
            format!("{value} {}", profile.total_words())
        }
    };
    let duration = profile.duration.as_secs_f64();
    format!("{runtime}{plotted} in {duration:.1} s")
}

/// The unit of the frames' values as it is shown, and what they are multiplied by.
fn unit(profile: &Profile) -> (String, f64) {
    let (name, factor) = match (profile.kind.plotted, profile.kind.unit) {
        (ValueSource::Count, _) => ("samples", 1.0),
        (ValueSource::Value, Unit::Events) => (profile.kind.words.total, 1.0),
        (ValueSource::Value, Unit::Nanoseconds) if profile.total_value() < NS_PER_SECOND => {
            ("µs", 1e-3)
        }
        (ValueSource::Value, Unit::Nanoseconds) => ("ms", 1e-6),
        (ValueSource::Value, Unit::Bytes) => ("kB", 1e-3),
    };
    (name.to_owned(), factor)
}

/// Colours of all frames, and the origins that occur.
fn palette(profile: &Profile, frames: &FrameTexts) -> (PaletteMap, BTreeSet<CodeOrigin>) {
    let mut palette = PaletteMap::default();
    let mut origins = BTreeSet::new();
    palette.insert("", THREAD);
    palette.insert(NO_FRAMES, CodeOrigin::Missing.color(NO_FRAMES));
    for (location, texts) in profile.locations.iter().zip(&frames.locations) {
        for (index, text) in texts.iter().enumerate() {
            let origin = CodeOrigin::new(profile, location, location.lines.get(index));
            palette.insert(text, origin.color(text));
            origins.insert(origin);
        }
    }
    for process in frames.processes.iter().flatten() {
        palette.insert(process, PROCESS);
    }
    for thread in frames.threads.iter().flatten() {
        palette.insert(thread, THREAD);
    }
    (palette, origins)
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
    use crate::{
        formats::golden::assert_golden,
        profile::{
            fixtures::{example_processes, example_profile, of_kind},
            kinds::{page_faults, wall},
        },
    };

    fn svg(profile: &Profile, threads: bool) -> String {
        let mut bytes = Vec::new();
        let options = EncodeOptions {
            threads,
            ..EncodeOptions::default()
        };
        write(profile, options, &mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_flame_graph_is_drawn() {
        for (name, profile) in [
            ("example.svg.txt", example_profile("/srv/app/main.py")),
            ("processes.svg.txt", example_processes("/srv/app/main.py")),
        ] {
            let text = svg(&profile, true);
            // The frames; what stands before them is inferno's script.
            let frames = &text[text.find(r#"<svg id="frames""#).unwrap()..];
            assert_golden(name, &frames.replace("<g>", "\n<g>"));
        }
    }

    #[test]
    fn processes_are_side_by_side() {
        let text = svg(&example_processes("/srv/app/main.py"), false);
        assert!(text.contains(">python3.12 (pid 4242) and 2 more processes<"));
        assert!(text.contains(">517 samples in 10.0 s<"));
        for (process, samples) in [("python3.12 (4242)", 400), ("python2.7 (4300)", 110)] {
            let (_, after) = text
                .split_once(&format!("<title>{process} ({samples} samples"))
                .unwrap();
            let fill = after.split("fill=").nth(1).unwrap();
            assert!(fill.starts_with("\"rgb(205,205,205)\""), "{fill}");
        }
    }

    #[test]
    fn the_title_names_the_process() {
        let text = svg(&example_profile("/srv/app/main.py"), false);
        assert!(text.contains(">python3.12 (pid 4242)<"));
        assert!(text.contains(">CPython 3.12.1 · 400 samples in 10.0 s<"));
        assert!(text.contains("<title>all (400 samples, 100%)</title>"));
    }

    #[test]
    fn events_are_named() {
        let profile = of_kind(example_profile("/srv/app/main.py"), &page_faults::KIND);
        let text = svg(&profile, false);
        assert!(text.contains(">CPython 3.12.1 · 40400 page faults in 10.0 s<"));
        assert!(text.contains("<title>all (40,400 page faults, 100%)</title>"));
    }

    #[test]
    fn times_have_a_unit() {
        let mut profile = of_kind(example_profile("/srv/app/main.py"), &wall::KIND);
        assert!(svg(&profile, false).contains("<title>all (4,000 ms, 100%)</title>"));
        for sample in &mut profile.samples {
            sample.value /= 10;
        }
        assert!(svg(&profile, false).contains("<title>all (400,000 µs, 100%)</title>"));
    }

    #[test]
    fn markers_are_grey() {
        let text = svg(&example_profile("/srv/app/main.py"), false);
        assert_eq!(fill(&text, "[frames left out]"), "190,190,190");
    }

    /// Red, green and blue of the frame with this title.
    fn fill<'a>(text: &'a str, title: &str) -> &'a str {
        let (_, after) = text.split_once(&format!("<title>{title} (")).unwrap();
        let (_, fill) = after.split_once("fill=\"rgb(").unwrap();
        fill.split_once(')').unwrap().0
    }

    #[test]
    fn colours_show_the_origin_of_code() {
        let profile = example_profile("/srv/app/main.py");
        let text = svg(&profile, false);
        let titles = [
            ("main (/srv/app/main.py:5)", CodeOrigin::Program),
            (
                "get (/srv/venv/lib/python3.12/site-packages/req/api.py:73)",
                CodeOrigin::Package,
            ),
            (
                "loads (/usr/lib/python3.12/json/__init__.py:346)",
                CodeOrigin::StandardLibrary,
            ),
            (
                "_find_and_load (&lt;frozen importlib._bootstrap&gt;:1360)",
                CodeOrigin::StandardLibrary,
            ),
            ("__libc_start_main (libc.so.6)", CodeOrigin::Native),
            ("_speedups.abi3.so+0x17b02", CodeOrigin::Native),
            ("Py_RunMain (python3.12)", CodeOrigin::Interpreter),
            ("vfs_write", CodeOrigin::Kernel),
            ("ext4_file_write_iter", CodeOrigin::Kernel),
        ];
        for (title, origin) in titles {
            let found: Vec<u8> = fill(&text, title)
                .split(',')
                .map(|part| part.parse().unwrap())
                .collect();
            let [dark, bright] = origin.range();
            let channels = [(dark.r, bright.r), (dark.g, bright.g), (dark.b, bright.b)];
            for (value, (dark, bright)) in found.into_iter().zip(channels) {
                assert!((dark..=bright).contains(&value), "{title}");
            }
        }
    }

    #[test]
    fn the_legend_lists_the_origins_that_occur() {
        let legend = |profile: &Profile| {
            let text = svg(profile, false);
            let (_, legend) = text.split_once(r#"<text id="legend""#).unwrap();
            let (legend, frames) = legend.split_once("</text>").unwrap();
            assert!(frames.starts_with(FRAMES));
            let labels = legend.split(r#"<tspan dx="4">"#).skip(1);
            labels
                .map(|label| label.split('<').next().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        let mut profile = example_profile("/srv/app/main.py");
        assert_eq!(
            legend(&profile),
            [
                "program",
                "packages",
                "standard library",
                "native code",
                "interpreter",
                "kernel",
                "not known"
            ]
        );
        profile.locations.truncate(1);
        profile.stacks = vec![Box::from([crate::profile::LocationId(0)])];
        profile.samples.truncate(1);
        assert_eq!(legend(&profile), ["program"]);
    }

    #[test]
    fn names_cannot_break_the_markup() {
        let mut profile = example_profile("/srv/app/main.py");
        "<b>&\"\u{0}\u{1b}\u{fffe}".clone_into(&mut profile.processes[0].name);
        let text = svg(&profile, true);
        assert!(text.contains("&lt;b&gt;&amp;"));
        assert!(text.chars().all(|character| {
            matches!(character, '\n' | '\t' | '\r') || !character.is_control()
        }));
        assert!(!text.contains('\u{fffe}'));
    }

    #[test]
    fn an_image_without_samples_has_a_note() {
        let mut profile = example_profile("/srv/app/main.py");
        profile.samples.clear();
        assert!(svg(&profile, false).contains(">No samples<"));
    }
}
