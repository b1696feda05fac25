//! The origins of code and their colours.

use std::fmt::Write as _;

use inferno::flamegraph::color::Color;

use crate::profile::{FrameKind, Function, GC_MARKER, Line, Location, Profile, is_state_marker};

/// Origin of the code of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CodeOrigin {
    /// Python code of the program.
    Program,
    /// Python code of installed packages.
    Package,
    /// Python code of the standard library.
    StandardLibrary,
    /// Native code, compiled ahead of time or by a JIT compiler.
    Native,
    /// Native code of the Python interpreter.
    Interpreter,
    /// Kernel code.
    Kernel,
    /// A marker for what a thread waits for, or whom it keeps waiting.
    Waiting,
    /// A marker for missing frames.
    Missing,
}

impl CodeOrigin {
    const ALL: [Self; 8] = [
        Self::Program,
        Self::Package,
        Self::StandardLibrary,
        Self::Native,
        Self::Interpreter,
        Self::Kernel,
        Self::Waiting,
        Self::Missing,
    ];

    /// The origin of a line of a location, or of a location without lines.
    pub(super) fn new(profile: &Profile, location: &Location, line: Option<&Line>) -> Self {
        let function = line.map(|line| profile.function(line.function));
        let executable = location
            .code
            .map(|code| profile.executable(code.executable));
        match (function, executable) {
            (Some(function), _) if function.kind == FrameKind::Python => Self::python(function),
            (_, Some(executable)) if executable.is_kernel() => Self::Kernel,
            (_, Some(executable)) if executable.is_interpreter() => Self::Interpreter,
            (_, Some(_)) => Self::Native,
            (Some(function), None) if function.name == GC_MARKER => Self::Interpreter,
            (Some(function), None) if is_state_marker(&function.name) => Self::Waiting,
            (_, None) => Self::Missing,
        }
    }

    fn python(function: &Function) -> Self {
        let directories = || function.file.split('/');
        if directories().any(|directory| matches!(directory, "site-packages" | "dist-packages")) {
            return Self::Package;
        }
        let is_library = |directory: &str| {
            let version = directory.strip_prefix("python");
            version.is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()))
        };
        // Frozen modules have no directory.
        if function.file.starts_with("<frozen ") || directories().any(is_library) {
            Self::StandardLibrary
        } else {
            Self::Program
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Program => "program",
            Self::Package => "packages",
            Self::StandardLibrary => "standard library",
            Self::Native => "native code",
            Self::Interpreter => "interpreter",
            Self::Kernel => "kernel",
            Self::Waiting => "waiting",
            Self::Missing => "not known",
        }
    }

    /// The darkest and the brightest colour of the origin.
    pub(super) fn range(self) -> [Color; 2] {
        match self {
            Self::Program => [rgb(212, 78, 72), rgb(244, 132, 122)],
            Self::Package => [rgb(64, 170, 180), rgb(118, 212, 218)],
            Self::StandardLibrary => [rgb(206, 186, 66), rgb(236, 220, 112)],
            Self::Native => [rgb(92, 172, 84), rgb(146, 212, 132)],
            Self::Interpreter => [rgb(176, 196, 160), rgb(206, 222, 192)],
            Self::Kernel => [rgb(148, 126, 204), rgb(190, 172, 232)],
            Self::Waiting => [rgb(226, 150, 92), rgb(244, 184, 132)],
            Self::Missing => [rgb(190, 190, 190); 2],
        }
    }

    /// The colour of a frame, the same for equal texts.
    pub(super) fn color(self, frame: &str) -> Color {
        // FNV-1a; its high bits are mixed best.
        let hash = frame.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        });
        let [brightness, ..] = hash.to_be_bytes();
        self.shade(brightness)
    }

    /// A colour between the darkest (0) and the brightest (255).
    fn shade(self, brightness: u8) -> Color {
        let [dark, bright] = self.range();
        let mixed = |dark: u8, bright: u8| {
            let whole = u32::from(u8::MAX);
            let share = u32::from(brightness);
            let sum = u32::from(dark) * (whole - share) + u32::from(bright) * share;
            u8::try_from(sum / whole).unwrap_or(u8::MAX)
        };
        rgb(
            mixed(dark.r, bright.r),
            mixed(dark.g, bright.g),
            mixed(dark.b, bright.b),
        )
    }
}

/// The legend as an SVG element, right-aligned, with its baseline `y` pixels below the top edge;
/// `occurs` selects the origins.
pub(super) fn legend(occurs: impl Fn(CodeOrigin) -> bool, y: usize) -> String {
    let mut text = format!(r#"<text id="legend" text-anchor="end" x="100%" dx="-10" y="{y}">"#);
    let mut distance = 0;
    for origin in CodeOrigin::ALL.into_iter().filter(|origin| occurs(*origin)) {
        let Color { r, g, b } = origin.shade(128);
        let _ = write!(
            text,
            r#"<tspan dx="{distance}" fill="rgb({r},{g},{b})">■</tspan><tspan dx="4">{}</tspan>"#,
            origin.label()
        );
        distance = 12;
    }
    text.push_str("</text>");
    text
}

const fn rgb(r: u8, g: u8, b: u8) -> Color {
    Color { r, g, b }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn python(file: &str) -> CodeOrigin {
        CodeOrigin::python(&Function {
            name: "f".to_owned(),
            file: file.to_owned(),
            first_line: None,
            kind: FrameKind::Python,
        })
    }

    #[test]
    fn the_origin_of_python_code_is_its_directory() {
        assert_eq!(python("/srv/app/main.py"), CodeOrigin::Program);
        assert_eq!(python("/home/me/python/main.py"), CodeOrigin::Program);
        assert_eq!(python("<string>"), CodeOrigin::Program);
        for path in [
            "/srv/venv/lib/python3.12/site-packages/req/api.py",
            "/usr/lib/python3/dist-packages/apt/cache.py",
        ] {
            assert_eq!(python(path), CodeOrigin::Package, "{path}");
        }
        for path in [
            "/usr/lib/python3.12/json/decoder.py",
            "/opt/python3.13t/lib/x.py",
            "<frozen importlib._bootstrap>",
        ] {
            assert_eq!(python(path), CodeOrigin::StandardLibrary, "{path}");
        }
    }

    #[test]
    fn a_frame_always_has_the_same_colour() {
        let colors = ["a (a.so)", "b (a.so)"].map(|frame| CodeOrigin::Native.color(frame));
        assert_ne!(colors[0], colors[1]);
        assert_eq!(colors[0], CodeOrigin::Native.color("a (a.so)"));
        let [dark, bright] = CodeOrigin::Kernel.range();
        assert_eq!(CodeOrigin::Kernel.shade(0), dark);
        assert_eq!(CodeOrigin::Kernel.shade(255), bright);
    }
}
