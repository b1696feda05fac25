//! File formats, with their names and file extensions.

use std::{fmt, path::Path};

/// A file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// pprof, which `go tool pprof`, Grafana Pyroscope, Parca and speedscope read: gzipped protobuf, with
    /// any of its extensions.
    Pprof,
    /// Folded stacks, which `flamegraph.pl` reads: one line per distinct stack, root first, with its
    /// samples.
    Folded,
    /// A flame graph as SVG, to be opened in a browser.
    Svg,
    /// speedscope's own format: JSON with a profile of each thread.
    Speedscope,
    /// Callgrind's format, which `KCachegrind` and `callgrind_annotate` read: text with the cost of functions, lines
    /// and calls.
    Callgrind,
    /// The `.cpuprofile` of V8, which Chromium's developer tools read: JSON with a tree of calls and samples.
    CpuProfile,
    /// Chrome's trace events, which Perfetto and `chrome://tracing` read: JSON with the begin and the end of calls.
    Chrome,
    /// The processed profile of the Firefox Profiler: JSON with the samples of each thread.
    Firefox,
    /// Text as `perf script` prints it: a record of each sample.
    PerfScript,
    /// JSON Lines: an object for each stack, for programs of one's own.
    JsonLines,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 10] = [
        Self::Pprof,
        Self::Folded,
        Self::Svg,
        Self::Speedscope,
        Self::Callgrind,
        Self::CpuProfile,
        Self::Chrome,
        Self::Firefox,
        Self::PerfScript,
        Self::JsonLines,
    ];

    /// Name in options and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pprof => "pprof",
            Self::Folded => "folded",
            Self::Svg => "svg",
            Self::Speedscope => "speedscope",
            Self::Callgrind => "callgrind",
            Self::CpuProfile => "cpuprofile",
            Self::Chrome => "chrome",
            Self::Firefox => "firefox",
            Self::PerfScript => "perf-script",
            Self::JsonLines => "jsonl",
        }
    }

    /// File extensions without the dot, the usual one first.
    #[must_use]
    pub fn endings(self) -> &'static [&'static str] {
        match self {
            Self::Pprof => &["pb.gz", "pb", "pprof"],
            Self::Folded => &["folded", "collapsed", "txt"],
            Self::Svg => &["svg"],
            Self::Speedscope => &["speedscope.json"],
            Self::Callgrind => &["callgrind"],
            Self::CpuProfile => &["cpuprofile"],
            Self::Chrome => &["trace.json"],
            Self::Firefox => &["firefox.json"],
            Self::PerfScript => &["perf", "linux-perf.txt"],
            Self::JsonLines => &["jsonl"],
        }
    }

    /// Whether it is for a viewer of flame graphs, not for programs that evaluate profiles.
    #[must_use]
    pub fn is_flame_graph(self) -> bool {
        self.has_times() && self != Self::PerfScript || self == Self::Svg
    }

    /// Whether it shows when samples were taken, where a profile says it.
    #[must_use]
    pub fn has_times(self) -> bool {
        self.needs_times() || matches!(self, Self::Speedscope | Self::CpuProfile)
    }

    /// Whether it can only be written of profiles that say when their samples were taken.
    #[must_use]
    pub fn needs_times(self) -> bool {
        matches!(self, Self::Chrome | Self::Firefox | Self::PerfScript)
    }

    /// Whether the output is binary.
    #[must_use]
    pub fn is_binary(self) -> bool {
        self == Self::Pprof
    }

    /// The format of this [name](Self::name).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// The format of a file extension, case-insensitive, or of `callgrind.out*`, as callgrind itself names files.
    #[must_use]
    pub fn from_path(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_string_lossy().to_lowercase();
        let ends_in = |ending: &&str| {
            name.strip_suffix(ending)
                .is_some_and(|stem| stem.ends_with('.'))
        };
        let endings = |format: Self| {
            let endings = format.endings().iter().copied().filter(ends_in);
            endings.map(move |ending| (ending.len(), format))
        };
        Self::ALL
            .into_iter()
            .flat_map(endings)
            .max_by_key(|(length, _)| *length)
            .map(|(_, format)| format)
            .or_else(|| name.starts_with("callgrind.out").then_some(Self::Callgrind))
    }
}

impl fmt::Display for Format {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_recognized_by_name() {
        for format in Format::ALL {
            assert_eq!(Format::from_name(format.name()), Some(format));
        }
        assert_eq!(Format::from_name("html"), None);
    }

    #[test]
    fn formats_are_recognized_by_extension() {
        let of = |path: &str| Format::from_path(Path::new(path));
        assert_eq!(of("/tmp/a.b/profile.pb.gz"), Some(Format::Pprof));
        assert_eq!(of("profile.pb"), Some(Format::Pprof));
        assert_eq!(of("profile.pprof"), Some(Format::Pprof));
        assert_eq!(of("x.FOLDED"), Some(Format::Folded));
        assert_eq!(of("x.collapsed"), Some(Format::Folded));
        assert_eq!(of("x.txt"), Some(Format::Folded));
        assert_eq!(of("x.svg"), Some(Format::Svg));
        assert_eq!(of("x.speedscope.json"), Some(Format::Speedscope));
        assert_eq!(of("x.json"), None);
        assert_eq!(of("x.jsonl"), Some(Format::JsonLines));
        assert_eq!(of("x.trace.json"), Some(Format::Chrome));
        assert_eq!(of("x.firefox.json"), Some(Format::Firefox));
        assert_eq!(of("x.perf"), Some(Format::PerfScript));
        assert_eq!(of("x.linux-perf.txt"), Some(Format::PerfScript));
        assert_eq!(of("x.cpuprofile"), Some(Format::CpuProfile));
        assert_eq!(of("x.callgrind"), Some(Format::Callgrind));
        assert_eq!(of("/tmp/callgrind.out"), Some(Format::Callgrind));
        assert_eq!(of("callgrind.out.4711"), Some(Format::Callgrind));
        assert_eq!(of("callgrind.out.svg"), Some(Format::Svg));
        assert_eq!(of("svg"), None);
        assert_eq!(of("x.gz"), None);
        assert_eq!(of("x.svg/y"), None);
        assert_eq!(of(".."), None);
    }
}
