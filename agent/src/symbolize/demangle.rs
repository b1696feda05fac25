//! The name of a function as its reader knows it, from the name of its symbol.
//!
//! Names of C++ and Rust are put back into the language's words, without the types of parameters
//! and results, which would make most of a flame graph's text, and without Rust's hashes.
//!
//! A compiler makes several pieces of one function and marks them: `f.cold` is what of `f` rarely
//! runs, `f.part.0` what was not inlined with the rest of it, `f.isra.0` and `f.constprop.0` have
//! other parameters, `f.lto_priv.0` and `f.llvm.123` were renamed. To the reader all of them are
//! `f`, and so they are shown. What is another function for the reader too keeps its mark, such
//! as the body of a loop that runs in parallel (`f._omp_fn.0`) or a variant for some processors
//! (`f.avx2`).
//!
//! Invariants: no name makes this panic, recurse without a bound or give more than
//! [`MAX_BYTES`] bytes; what it gives has no control characters.

use std::{
    borrow::Cow,
    fmt::{self, Write as _},
};

use cpp_demangle::{BorrowedSymbol, DemangleOptions};

use crate::python::text;

/// Most bytes of a name that is shown.
const MAX_BYTES: usize = 1024;

/// What compilers append to the name of a piece of a function, as a rule with a number behind it.
const PIECES: [&str; 10] = [
    "cold",
    "part",
    "constprop",
    "isra",
    "lto_priv",
    "llvm",
    "localalias",
    "clone",
    "warm",
    "__uniq",
];

/// Most bytes of a name before it is shortened.
const MOST_BYTES: usize = 64 << 10;

/// What stands for `std::string` in the libraries of GCC, in its older ABI, and of Clang.
const STRINGS: [&str; 3] = [
    "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >",
    "std::basic_string<char, std::char_traits<char>, std::allocator<char> >",
    "std::__1::basic_string<char, std::__1::char_traits<char>, std::__1::allocator<char> >",
];

/// What a reader calls the function of Go with this name: nothing marks its pieces, and what a
/// mark would be is part of a name, as in `runtime.clone`.
pub(super) fn go_name(name: &[u8]) -> String {
    let name = decoded(name);
    shorten(name[..boundary(&name, MOST_BYTES)].to_owned())
}

/// A name without control characters.
fn decoded(name: &[u8]) -> Cow<'_, str> {
    let plain = str::from_utf8(name).ok();
    let plain = plain.filter(|name| name.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
    plain.map_or_else(|| text::decode_bytes(name).into(), Cow::Borrowed)
}

/// What a reader calls the function with this symbol.
pub(super) fn demangle(symbol: &[u8]) -> String {
    let name = decoded(symbol);
    let name = without_marks(without_version(&name));
    let mut shown = Limited::default();
    let is_demangled = if let Ok(rust) = rust(name) {
        // It does not stop at an error, but has a bound of its own.
        let _ = write!(shown, "{rust:#}");
        true
    } else {
        cpp(name, &mut shown)
    };
    if !is_demangled {
        shown = Limited::default();
        let _ = shown.write_str(name);
    }
    let mut name = shown.0;
    if name.contains("basic_string<") {
        for string in STRINGS {
            name = name.replace(string, "std::string");
        }
    }
    shorten(name)
}

/// The name without the version that the linker appends (`memcpy@@GLIBC_2.14`).
fn without_version(name: &str) -> &str {
    match name.find('@') {
        Some(end) if end > 0 => &name[..end],
        _ => name,
    }
}

/// The name without what the compiler appends to pieces of a function.
fn without_marks(name: &str) -> &str {
    let mut name = name;
    while let Some((before, last)) = name.rsplit_once('.') {
        let is_number = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
        let (before, last) = match before.rsplit_once('.') {
            Some((before, mark)) if is_number && PIECES.contains(&mark) => (before, mark),
            _ => (before, last),
        };
        // A mere number tells apart what has the same name.
        let is_mark = PIECES.contains(&last) || is_number && !before.contains("._omp_fn");
        if before.is_empty() || !is_mark {
            break;
        }
        name = before;
    }
    name
}

/// The parts of a name that Rust made.
fn rust(name: &str) -> Result<rustc_demangle::Demangle<'_>, ()> {
    /// Bytes of the hash at the end, with its length.
    const HASH: usize = 3 + 16;
    let is_legacy = || {
        // Names of C++ look alike but for the hash.
        let is_hash = |rest: &str| {
            rest.get(3..HASH)
                .is_some_and(|hash| hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
                && rest[HASH..].starts_with('E')
        };
        name.starts_with("_ZN") && name.rfind("17h").is_some_and(|at| is_hash(&name[at..]))
    };
    if name.starts_with("_R") || is_legacy() {
        return rustc_demangle::try_demangle(name).map_err(|_| ());
    }
    Err(())
}

/// Puts a name that C++ made into words, if it is one.
fn cpp(name: &str, into: &mut Limited) -> bool {
    if !name.starts_with("_Z") {
        return false;
    }
    // What was not taken off above, such as `._omp_fn.0`.
    let (name, mark) = name.split_at(name.find('.').unwrap_or(name.len()));
    let name = behind_thunk(name).map_or(Cow::Borrowed(name), |rest| format!("_Z{rest}").into());
    // What is left over are types of parameters that are not understood, and not shown anyway.
    let Ok((symbol, _)) = BorrowedSymbol::with_tail(name.as_bytes()) else {
        return false;
    };
    let options = DemangleOptions::new().no_params().no_return_type();
    let result = symbol.structured_demangle(into, &options);
    if result.is_ok() {
        let _ = into.write_str(mark);
    }
    result.is_ok() || into.is_full()
}

/// What the name of a thunk is about: a piece of code that only goes on to a function, after it has
/// made the object that is called one of the class that the function is of.
fn behind_thunk(name: &str) -> Option<&str> {
    /// Takes what says by how much the object is moved.
    fn offset(rest: &str) -> Option<&str> {
        let numbers = match rest.as_bytes().first()? {
            b'h' => 1,
            b'v' => 2,
            _ => return None,
        };
        (0..numbers).try_fold(&rest[1..], |rest, _| {
            let (number, rest) = rest.split_once('_')?;
            let digits = number.strip_prefix('n').unwrap_or(number);
            let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then_some(rest)
        })
    }

    let rest = name.strip_prefix("_ZT")?;
    match rest.strip_prefix('c') {
        Some(rest) => offset(offset(rest)?),
        None => offset(rest),
    }
}

/// A name of at most [`MAX_BYTES`] bytes: what says most, the end, is kept as long as there are
/// arguments of templates to leave out, the innermost first.
fn shorten(mut name: String) -> String {
    /// The deepest arguments that are kept at first.
    const DEEPEST: usize = 5;
    const MARK: char = '…';
    if name.len() <= MAX_BYTES {
        return name;
    }
    let mut shorter = (0..=DEEPEST)
        .rev()
        .map(|depth| without_arguments(&name, depth));
    if let Some(short) = shorter.find(|name| name.len() <= MAX_BYTES) {
        return short;
    }
    name.truncate(boundary(&name, MAX_BYTES - MARK.len_utf8()));
    name.push(MARK);
    name
}

/// A name without the arguments that are deeper inside others than `most_depth`.
fn without_arguments(name: &str, most_depth: usize) -> String {
    let mut short = String::new();
    let mut depth: usize = 0;
    for (at, character) in name.char_indices() {
        // Operators and arrows are no brackets.
        let before = &name[..at];
        let mut operators = ["operator", "operator<", "operator>", "-"].iter();
        let is_bracket = !operators.any(|operator| before.ends_with(operator));
        match character {
            '<' if is_bracket => {
                depth += 1;
                if depth <= most_depth + 1 {
                    short.push('<');
                }
                if depth == most_depth + 1 {
                    short.push('…');
                }
            }
            '>' if is_bracket => {
                if depth <= most_depth + 1 {
                    short.push('>');
                }
                depth = depth.saturating_sub(1);
            }
            _ if depth <= most_depth => short.push(character),
            _ => {}
        }
    }
    short
}

/// Text that does not become longer than [`MOST_BYTES`].
#[derive(Default)]
struct Limited(String);

impl Limited {
    fn is_full(&self) -> bool {
        self.0.len() > MOST_BYTES - 4
    }
}

impl fmt::Write for Limited {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = boundary(text, MOST_BYTES - self.0.len());
        self.0.push_str(&text[..end]);
        // Who writes has to stop: what is left may be much.
        if end < text.len() {
            Err(fmt::Error)
        } else {
            Ok(())
        }
    }
}

/// The last place where a character ends within the first `most` bytes.
fn boundary(text: &str, most: usize) -> usize {
    let mut places = (0..=most.min(text.len())).rev();
    places
        .find(|&place| text.is_char_boundary(place))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{MAX_BYTES, demangle, go_name};
    use proptest::prelude::{any, prop, proptest};

    fn check(pairs: &[(&str, &str)]) {
        for (symbol, name) in pairs {
            assert_eq!(demangle(symbol.as_bytes()), *name, "{symbol}");
        }
    }

    #[test]
    fn names_of_c_stay_as_they_are() {
        check(&[
            ("_PyEval_EvalFrameDefault", "_PyEval_EvalFrameDefault"),
            ("PyObject_Call", "PyObject_Call"),
            ("__libc_start_main", "__libc_start_main"),
            ("memcpy@@GLIBC_2.14", "memcpy"),
            ("_Z", "_Z"),
            ("_Zebra", "_Zebra"),
            ("_ZNot", "_ZNot"),
            ("_Rust", "_Rust"),
            ("@plt", "@plt"),
            ("", ""),
        ]);
    }

    #[test]
    fn names_of_go_stay_as_they_are() {
        for name in ["runtime.clone", "main.main.func1.2", "main.(*T).cold"] {
            assert_eq!(go_name(name.as_bytes()), name);
        }
        assert!(go_name(&vec![b'x'; 1 << 20]).len() <= MAX_BYTES);
        assert!(!go_name(b"a\nb").contains('\n'));
    }

    #[test]
    fn names_of_cpp_are_without_parameters() {
        check(&[
            (
                "_ZNSt6vectorIiSaIiEE9push_backEOi",
                "std::vector<int, std::allocator<int> >::push_back",
            ),
            ("_ZN4llvm5Value7getNameEv", "llvm::Value::getName"),
            ("_Z4sortIiEvPT_S1_", "sort<int>"),
            ("_ZN1AC2Ev", "A::A"),
            ("_ZN12_GLOBAL__N_13runEv.cold", "(anonymous namespace)::run"),
            ("_Z4workPdi._omp_fn.0", "work._omp_fn.0"),
            (
                "_ZNSt3mapINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEiE4findEv",
                "std::map<std::string, int>::find",
            ),
            ("_ZThn16_N1A3runEv", "A::run"),
            ("_ZTv0_n24_NSt1BD0Ev", "std::B::~B"),
            ("_ZTch0_v0_n16_N1A5cloneEv", "A::clone"),
            // With a type of the result that is not understood.
            (
                "_ZSt4swapIiENSt9enable_ifIXsrSt6__and_IJSt6__not_ISt15__is_tuple_likeIT_EEEE5valueEvE4typeERS7_SH_",
                "std::swap<int>",
            ),
        ]);
    }

    #[test]
    fn names_of_rust_are_without_hashes() {
        check(&[
            (
                "_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE",
                "core::fmt::Write::write_fmt",
            ),
            (
                "_ZN50_$LT$T$u20$as$u20$core..convert..Into$LT$U$GT$$GT$4into17h0123456789abcdefE.llvm.77",
                "<T as core::convert::Into<U>>::into",
            ),
            ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
            ("_RNvCs1234_7mycrate3foo.llvm.9078", "mycrate::foo"),
        ]);
    }

    #[test]
    fn pieces_of_a_function_are_the_function() {
        check(&[
            ("f.cold", "f"),
            ("f.cold.12", "f"),
            ("f.part.0", "f"),
            ("f.isra.0.cold", "f"),
            ("f.constprop.0.isra.0", "f"),
            ("f.lto_priv.3", "f"),
            ("f.llvm.12345", "f"),
            ("f.1234", "f"),
            ("f.part.0.lto_priv.0.cold", "f"),
            ("f._omp_fn.0", "f._omp_fn.0"),
            ("f.avx2", "f.avx2"),
            ("runtime.mallocgc", "runtime.mallocgc"),
            (".cold", ".cold"),
            (".5", ".5"),
        ]);
    }

    #[test]
    fn a_long_name_is_cut() {
        let long = demangle("é".repeat(MAX_BYTES).as_bytes());
        assert!(long.len() <= MAX_BYTES && long.len() > MAX_BYTES - 4);
        assert!(long.ends_with("é…"));
        // 2^60 letters: what a name refers back to is printed again and again.
        let levels = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ".chars();
        let levels: Vec<String> = levels.map(|it| format!("1AIS{it}_S{it}_E")).collect();
        let bomb = demangle(format!("_Z1fI1AIaaE{}Evv", levels.concat()).as_bytes());
        assert!(bomb.len() <= MAX_BYTES && bomb.contains('…'), "{bomb}");
    }

    #[test]
    fn the_end_of_a_long_name_is_kept() {
        let inner = "inner::Type<int>, ".repeat(100);
        let name = format!("<a::B<{inner}c> as d::E<f->g>>::operator<");
        let short = "<a::B<…> as d::E<…>>::operator<";
        assert_eq!(demangle(name.as_bytes()), short);
        let deep = format!("{}x{}::run", "a<".repeat(1000), ">".repeat(1000));
        assert_eq!(demangle(deep.as_bytes()), "a<a<a<a<a<a<…>>>>>>::run");
        assert!(demangle("<".repeat(3000).as_bytes()).len() <= MAX_BYTES);
    }

    #[test]
    fn control_characters_do_no_harm() {
        assert_eq!(demangle(b"a\x1b[31m\nb"), r"a\x1b[31m\nb");
    }

    proptest! {
        #[test]
        fn no_symbol_makes_it_panic(symbol in any::<Vec<u8>>()) {
            assert!(demangle(&symbol).len() <= MAX_BYTES);
        }

        #[test]
        fn no_mangled_name_makes_it_panic(
            scheme in prop::sample::select(vec!["_Z", "_ZN", "_R", "_RNv", "_RI", "_ZZN"]),
            rest in "[0-9A-Za-z_.$]{0,80}",
        ) {
            assert!(demangle(format!("{scheme}{rest}").as_bytes()).len() <= MAX_BYTES);
        }

        #[test]
        fn no_production_makes_it_panic(
            parts in prop::collection::vec(prop::sample::select(vec![
                "N", "I", "E", "S_", "S0_", "T_", "T0_", "J", "1a", "2bc", "P", "R", "K", "v", "i",
                "F", "X", "L", "St", "Sa", "Dp", "DT", "cl", "C1", "D2", "Z", "_", "sr", "Ul", "Ut",
                "17h0123456789abcdefE",
            ]), 0..60),
        ) {
            for scheme in ["_Z", "_ZN", "_RI"] {
                assert!(demangle(format!("{scheme}{}", parts.concat()).as_bytes()).len() <= MAX_BYTES);
            }
        }
    }
}
