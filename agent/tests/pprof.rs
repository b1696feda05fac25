//! Reports of `go tool pprof` on a profile.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::{Path, PathBuf},
};

use agent::testing::{
    binaries::elf::Elf,
    formats::{self, EncodeOptions, Format, FunctionNames},
    profile::{self, Executable, ExecutableKind},
};
use tempfile::TempDir;
use test_support::go;
use xtask::tools::{self, go::Go};

/// The source of the profiled program; its lines match those in the profile.
const SOURCE: &str = "\
import req

def main():
    fib(30)
    req.get(key=lambda row: row)


def fib(n):
    if n > 1:
        return (fib(n - 1)
            + fib(n - 2))
    return n

class Rows: load = lambda self: lambda: Straße.größe_日本()

class Straße:
    def größe_日本():
        return 0



main()
";

/// A profile in a temporary folder, with the source of its program, for one version of Go.
struct Written {
    go: Go,
    folder: TempDir,
    file: PathBuf,
}

impl Written {
    /// One for each Go.
    fn all() -> [Self; 2] {
        Self::all_of(profile::fixtures::example_profile)
    }

    /// The profile that `make` builds from the path of the source, for each Go.
    fn all_of(make: impl Fn(&str) -> profile::Profile) -> [Self; 2] {
        Self::all_with(make, EncodeOptions::default())
    }

    fn all_with(make: impl Fn(&str) -> profile::Profile, options: EncodeOptions) -> [Self; 2] {
        tools::go::all()
            .unwrap()
            .map(|go| Self::of(go, &make, options))
    }

    fn of(go: Go, make: impl Fn(&str) -> profile::Profile, options: EncodeOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("main.py");
        fs::write(&source, SOURCE).unwrap();
        let profile = make(source.to_str().unwrap());
        let mut bytes = Vec::new();
        formats::encode(&profile, Format::Pprof, options, &mut bytes).unwrap();
        let file = folder.path().join("made.pb.gz");
        fs::write(&file, bytes).unwrap();
        Self { go, folder, file }
    }

    /// Standard output of `go tool pprof`; it must not print anything on standard error.
    fn pprof(&self, arguments: &[&str]) -> String {
        println!("go {}", self.go.version());
        let file = self.file.to_str().unwrap();
        let arguments = arguments.iter().copied().chain([file]);
        let (report, messages) = go::pprof(&self.go, self.folder.path(), arguments);
        assert_eq!(messages, "", "it prints warnings");
        report
    }
}

/// The rows of a table, split into words, without the lines before them.
fn rows(report: &str) -> Vec<Vec<&str>> {
    report
        .lines()
        .skip_while(|line| !line.contains("flat%"))
        .skip(1)
        .map(|line| line.split_whitespace().collect())
        .collect()
}

#[test]
fn top_has_the_names_of_python_functions() {
    for written in Written::all() {
        let report = written.pprof(&["-top", "-nodecount=40", "-nodefraction=0", "-unit=ms"]);
        for line in [
            "File: python3.12",
            "Build ID: 0123456789abcdef0123456789abcdef01234567",
            "process 4242 (python3.12), CPython 3.12.1",
            "12 samples were lost: the ring buffer was full.",
            "Type: cpu",
        ] {
            assert!(
                report.lines().any(|found| found == line),
                "{line} in {report}"
            );
        }
        assert!(
            report.contains("Duration: 10.01s, Total samples = 4000ms"),
            "{report}"
        );
        assert!(
            report.contains("accounting for 4000ms, 100% of 4000ms total"),
            "{report}"
        );

        let found: Vec<_> = rows(&report)
            .into_iter()
            .map(|row| (row[0], row[3], row[5..].join(" ")))
            .collect();
        let expected = [
            ("1500ms", "1500ms", "fib"),
            ("1500ms", "1500ms", "loads"),
            ("300ms", "500ms", "Rows.load.<locals>.<lambda>"),
            ("200ms", "200ms", "Straße.größe_日本"),
            ("200ms", "200ms", "ext4_file_write_iter"),
            ("90ms", "90ms", r"a;b\n\u{1b}[31m <c> 9"),
            ("60ms", "60ms", "memchr::<u8> (inline)"),
            ("50ms", "3610ms", "main"),
            ("30ms", "30ms", "[[jit]]"),
            ("30ms", "30ms", "[no Python frames]"),
            ("30ms", "30ms", "_find_and_load"),
            ("10ms", "10ms", "[[kernel.kallsyms]]"),
            ("0", "3640ms", "<module>"),
            ("0", "400ms", "Py_RunMain"),
            ("0", "90ms", "[_speedups.abi3.so]"),
            ("0", "200ms", "[frames left out]"),
            (
                "0",
                "70ms",
                "[native frames unknown: the stack was not in memory]",
            ),
            ("0", "400ms", "__libc_start_main"),
            ("0", "10ms", "__vdso_clock_gettime"),
            ("0", "200ms", "__write"),
            ("0", "200ms", "_io_FileIO_write"),
            ("0", "200ms", "binarysort (inline)"),
            ("0", "1680ms", "get"),
            ("0", "30ms", "kernel; v1"),
            ("0", "200ms", "list_sort_impl"),
            ("0", "60ms", "speedups::Parser<'_>::parse"),
            ("0", "200ms", "vfs_write"),
        ];
        assert_eq!(
            found,
            expected.map(|(flat, cum, name)| (flat, cum, name.to_owned()))
        );
    }
}

#[test]
fn samples_are_the_second_sample_type() {
    for written in Written::all() {
        let report = written.pprof(&[
            "-top",
            "-nodecount=40",
            "-nodefraction=0",
            "-sample_index=samples",
        ]);
        assert!(report.contains("Type: samples"), "{report}");
        assert!(report.contains("Total samples = 400"), "{report}");
        assert_eq!(
            rows(&report)[0],
            ["150", "37.50%", "37.50%", "150", "37.50%", "fib"]
        );
    }
}

#[test]
fn lines_and_addresses_are_separate_rows() {
    for written in Written::all() {
        let source = written.folder.path().join("main.py");
        for granularity in ["-lines", "-addresses"] {
            let report = written.pprof(&[
                "-top",
                "-nodecount=40",
                "-nodefraction=0",
                "-unit=ms",
                granularity,
            ]);
            let found: Vec<_> = rows(&report)
                .into_iter()
                .map(|row| (row[0], row[5..].join(" ")))
                .collect();
            for (flat, name, place) in [
                ("1200ms", "fib", ":11"),
                ("300ms", "fib", ":10"),
                ("50ms", "main", ""),
                ("0", "main", ":4"),
                ("0", "main", ":5"),
                ("0", "<module>", ":22"),
            ] {
                let row = (flat, format!("{name} {}{place}", source.display()));
                assert!(found.contains(&row), "{row:?} in {report}");
            }
            let frozen = "_find_and_load <frozen importlib._bootstrap>:1360";
            assert!(report.contains(frozen), "{report}");
        }
    }
}

#[test]
fn traces_are_complete_and_have_thread_labels() {
    for written in Written::all() {
        let report = written.pprof(&["-traces", "-unit=ms"]);
        let traces: Vec<String> = report
            .split("-----------+-------------------------------------------------------")
            .skip(1)
            .map(|trace| trace.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        for trace in [
            "thread_name: MainThread thread_id: 4242 1200ms fib fib fib main <module>",
            "thread_name: worker thread_id: 4243 500ms loads get main <module>",
            "thread_name: worker thread_id: 4244 600ms loads get main <module>",
            "thread_name: worker thread_id: 4243 \
         200ms Straße.größe_日本 Rows.load.<locals>.<lambda> [frames left out]",
            "thread_name: # naïve; 线程 thread_id: 4245 30ms [no Python frames]",
        ] {
            assert!(
                traces.iter().any(|found| found == trace),
                "{trace} in {report}"
            );
        }
    }
}

#[test]
fn samples_can_be_filtered_by_thread() {
    for written in Written::all() {
        let report = written.pprof(&["-top", "-tagfocus=thread_name=worker"]);
        assert!(
            report.contains("accounting for 1.39s, 34.75% of 4s total"),
            "{report}"
        );
        assert!(!report.contains("fib"), "{report}");
    }
}

#[test]
fn samples_can_be_filtered_by_process() {
    for written in Written::all_of(profile::fixtures::example_processes) {
        let report = written.pprof(&["-traces", "-unit=ms", "-tagfocus=process_name=python2.7"]);
        // The order of labels is not defined.
        let sorted = |trace: &str| {
            let mut words: Vec<_> = trace.split_whitespace().map(str::to_owned).collect();
            words.sort();
            words
        };
        let traces: Vec<_> = report
            .split("-----------+-------------------------------------------------------")
            .skip(1)
            .map(sorted)
            .collect();
        for (tid, name, time) in [(4243, "worker", 400), (4300, "MainThread", 700)] {
            let trace = format!(
                "process_name: python2.7 process_id: 4300 thread_name: {name} thread_id: {tid} \
             {time}ms Rows.load.<locals>.<lambda> main <module>"
            );
            assert!(traces.contains(&sorted(&trace)), "{trace} in {report}");
        }
        assert!(!report.contains("process_name:  python3.12"), "{report}");
    }
}

#[test]
fn frames_of_each_process_are_in_its_own_mapping() {
    for written in Written::all_of(profile::fixtures::example_processes) {
        let report = written.pprof(&["-raw"]);
        let mapping = |name: &str| {
            let mut lines = report.lines().skip_while(|line| *line != "Mappings");
            let line = lines.find(|line| line.contains(name)).unwrap();
            line.split(':').next().unwrap().trim().to_owned()
        };
        let locations: Vec<_> = report
            .lines()
            .skip_while(|line| *line != "Locations")
            .take_while(|line| *line != "Mappings")
            .filter(|line| line.contains(" M=") && line.contains("<lambda>"))
            .map(|line| line.split(" M=").nth(1).unwrap())
            .map(|rest| rest.split_whitespace().next().unwrap().to_owned())
            .collect();
        let of_each = ["[cpython 3.12.1]", "[cpython 2.7.18]"].map(mapping);
        assert_eq!(locations, of_each, "{report}");
    }
}

#[test]
fn lists_show_the_source() {
    for written in Written::all() {
        let report = written.pprof(&["-list=fib|lambda", "-unit=ms"]);
        let has = |line: &str| {
            let line: Vec<_> = line.split_whitespace().collect();
            report
                .lines()
                .any(|found| found.split_whitespace().eq(line.iter().copied()))
        };
        for line in [
            "1500ms 2700ms (flat, cum) 67.50% of Total",
            ". . 9: if n > 1:",
            "300ms 1500ms 10: return (fib(n - 1)",
            "1200ms 1200ms 11: + fib(n - 2))",
            "300ms 500ms 14:class Rows: load = lambda self: lambda: Straße.größe_日本()",
        ] {
            assert!(has(line), "{line} in {report}");
        }
    }
}

#[test]
fn raw_shows_the_content_of_the_file() {
    for written in Written::all() {
        let report = written.pprof(&["-raw"]);
        for line in [
            "PeriodType: cpu nanoseconds",
            "Period: 10000000",
            "Time: 2026-01-02 03:04:05 +0000 UTC",
            "Duration: 10.0",
            "samples/count cpu/nanoseconds[dflt]",
        ] {
            assert!(
                report.lines().any(|found| found == line),
                "{line} in {report}"
            );
        }
        for mapping in [
            "1: 0x420000/0x1420000/0x20000 /usr/bin/python3.12 \
         0123456789abcdef0123456789abcdef01234567 [FN][FL][LN][IN]",
            "3: 0x14000/0x1014000/0x4000 /srv/app/_speedups.abi3.so  [FL][LN][IN]",
            "0xffffffff81000000/0xffffffff82000000/0x0 [kernel.kallsyms]  [FL][LN]",
            "0xffffffffc0600000/0xffffffffc1600000/0x0 [ext4]  [FN][FL][LN]",
            "0x7fffe0000000/0x7fffe1000000/0x0 [jit]  [FL][LN]",
        ] {
            assert!(report.contains(mapping), "{mapping} in {report}");
        }
        assert!(
            report.contains("[cpython 3.12.1]  [FN][FL][LN]"),
            "{report}"
        );
        assert!(
            report.contains(&raw_line(
                &written.go,
                "loads /usr/lib/python3.12/json/__init__.py:346",
                299
            )),
            "{report}"
        );
    }
}

/// A line in a raw report, with the start line of its function; since Go 1.21 also with the column.
fn raw_line(go: &Go, place: &str, start: u32) -> String {
    if go.minor() < 21 {
        format!("{place} s={start}")
    } else {
        format!("{place}:0 s={start}()")
    }
}

#[test]
fn inlined_functions_are_in_their_callers() {
    for written in Written::all() {
        let report = written.pprof(&["-traces", "-unit=ms", "-lines", "-focus=binarysort"]);
        let words: Vec<_> = report.split_whitespace().collect();
        let inlined = "binarysort Objects/listobject.c:1698 (inline) \
                   list_sort_impl Objects/listobject.c:2514";
        assert!(words.join(" ").contains(inlined), "{report}");
    }
}

#[test]
fn one_line_at_two_addresses_is_two_rows() {
    for written in Written::all() {
        let report = written.pprof(&["-top", "-addresses", "-unit=ms", "-focus=binarysort"]);
        for (time, address) in [("150ms", "4f03c8"), ("50ms", "4f0411")] {
            let has = |line: &str| line.contains(time) && line.contains(address);
            assert!(report.lines().any(has), "{address} in {report}");
        }
    }
}

const PROGRAM: &str = "\
int work(int n) { volatile int sum = 0; for (int i = 0; i < n; i++) sum += i; return sum; }
int main(void) { return work(100); }
";

#[test]
fn addresses_are_symbolized_where_the_file_exists() {
    // Position-independent, then at a fixed address.
    for flag in ["-pie", "-Wl,-Ttext-segment=0x100000"] {
        let folder = tempfile::tempdir().unwrap();
        let [source, path] = ["program.c", "program"].map(|name| folder.path().join(name));
        fs::write(&source, PROGRAM).unwrap();
        let compiled = tools::GCC
            .command()
            .args(["-g", "-Wl,--build-id", flag])
            .args([&source, Path::new("-o"), &path])
            .status()
            .unwrap();
        assert!(compiled.success());
        for written in Written::all_of(|source| without_names(source, &path)) {
            let report = written.pprof(&["-top", "-lines"]);
            let place = format!("work {}:1", source.display());
            assert!(
                report.lines().any(|line| line.ends_with(&place)),
                "{flag}: {report}"
            );
        }
    }
}

/// The example profile with a program in place of one of its executables: all frames in it are at
/// `work`, and have no names.
fn without_names(source: &str, path: &Path) -> profile::Profile {
    let elf = Elf::read(File::open(path).unwrap()).unwrap();
    let symbol = elf.symbol("work").unwrap().unwrap();
    let file_offset = elf.segments().file_offset(symbol.address, 1).unwrap();
    let start = symbol.address & !0xfff;
    let mut profile = profile::fixtures::example_profile(source);
    let code = profile.locations.iter().find_map(|location| location.code);
    let id = code.unwrap().executable;
    profile.executables[id.0 as usize] = Executable {
        path: path.to_owned(),
        build_id: elf.build_id().unwrap(),
        kind: ExecutableKind::File,
        start,
        limit: start + 0x1000,
        file_offset: file_offset & !0xfff,
    };
    for location in &mut profile.locations {
        if let Some(code) = &mut location.code
            && code.executable == id
        {
            code.address = symbol.address + 4;
            location.lines = Box::default();
        }
    }
    profile
}

#[test]
fn profiles_of_one_program_share_their_locations() {
    for written in Written::all() {
        let second = written.folder.path().join("second.pb.gz");
        fs::copy(&written.file, &second).unwrap();
        let one = written.pprof(&["-raw"]);
        let both = written.pprof(&["-raw", second.to_str().unwrap()]);
        assert_eq!(locations(&one), locations(&both));
        assert!(both.contains("240 2400000000:"), "{both}");
    }
}

/// The locations of a raw report without their numbers, each with its mapping, in order: newer
/// versions renumber the locations of merged profiles.
fn locations(report: &str) -> Vec<String> {
    let numbered = |line: &str| -> Option<(u64, String)> {
        let (number, rest) = line.trim_start().split_once(": ")?;
        Some((number.parse().ok()?, rest.to_owned()))
    };
    let mappings = report.lines().skip_while(|line| *line != "Mappings");
    let mappings: BTreeMap<_, _> = mappings.filter_map(numbered).collect();
    let mut locations = Vec::<String>::new();
    let lines = report.lines().skip_while(|line| *line != "Locations");
    for line in lines.skip(1).take_while(|line| *line != "Mappings") {
        match numbered(line) {
            Some((_, location)) => {
                let (address, rest) = location.split_once(" M=").unwrap();
                let (mapping, rest) = rest.split_once(' ').unwrap();
                let mapping = &mappings[&mapping.parse().unwrap()];
                locations.push(format!("{address} {mapping} {rest}"));
            }
            // The caller that the previous function is inlined into.
            None => locations.last_mut().unwrap().push_str(line),
        }
    }
    assert!(!locations.is_empty());
    locations.sort();
    locations
}

#[test]
fn demangling_does_not_change_names() {
    for written in Written::all() {
        let report = written.pprof(&[
            "-top",
            "-nodecount=40",
            "-nodefraction=0",
            "-symbolize=remote:force",
        ]);
        for name in [
            "<module>",
            "Rows.load.<locals>.<lambda>",
            "[frames left out]",
        ] {
            assert!(
                report.lines().any(|line| line.ends_with(name)),
                "{name} in {report}"
            );
        }
    }
}

#[test]
fn functions_are_shown_with_their_module() {
    let options = EncodeOptions {
        function_names: FunctionNames::Module,
        ..EncodeOptions::default()
    };
    for written in Written::all_with(profile::fixtures::example_profile, options) {
        let report = written.pprof(&["-top", "-nodecount=40", "-nodefraction=0"]);
        for name in [
            "main.fib",
            "main.<module>",
            "main.Rows.load.<locals>.<lambda>",
            "json.loads",
            "req.api.get",
            "importlib._bootstrap._find_and_load",
            "Py_RunMain",
        ] {
            let is_shown = |line: &str| line.split_whitespace().last() == Some(name);
            assert!(report.lines().any(is_shown), "{name} in {report}");
        }
    }
}
