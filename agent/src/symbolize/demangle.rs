//! Demangles symbols: the name of a function as its source has it.
//!
//! Names of C++ and Rust are demangled, without parameter and return types, which would be most of the
//! text of a flame graph, without Rust's hashes and without the ABI tags of C++, which libc++ gives to nearly every
//! function and numba to each of its own; those of [Cython](cython) have their modules and classes.
//!
//! A compiler may split or clone a function and mark the parts with suffixes: `f.cold` is the rarely
//! executed part of `f`, `f.part.0` the part that was not inlined, `f.isra.0` and `f.constprop.0` have
//! other parameters, `f.lto_priv.0` and `f.llvm.123` were renamed. All of these are shown as `f`.
//! Suffixes of functions that differ for the reader as well are kept, such as the body of a parallel
//! loop (`f._omp_fn.0`) or a variant for some CPUs (`f.avx2`).
//!
//! Invariants: no symbol causes a panic, unbounded recursion or a name longer than
//! [`MAX_BYTES`](super::shorten::MAX_BYTES); names have no control characters.

mod cython;

use std::{
    borrow::Cow,
    fmt::{self, Write as _},
    iter,
};

use cpp_demangle::{BorrowedSymbol, DemangleOptions};

use super::shorten::{boundary, shorten};
use crate::{python::text, text::printable};

/// Suffixes of the parts of a function, usually followed by a number.
const PART_SUFFIXES: [&str; 10] = [
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

/// Most bytes of a demangled name before it is shortened.
const MAX_DEMANGLED_BYTES: usize = 64 << 10;

/// How the demangled ABI tag of a function or type begins; it ends with `]`.
const ABI_TAG: &str = "[abi:";

/// `std::string` in libstdc++, in its older ABI, and in libc++.
const STRINGS: [&str; 3] = [
    "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >",
    "std::basic_string<char, std::char_traits<char>, std::allocator<char> >",
    "std::__1::basic_string<char, std::__1::char_traits<char>, std::__1::allocator<char> >",
];

/// The name of a Go function: Go has no suffixes of parts, and what looks like one belongs to the name,
/// as in `runtime.clone`.
#[must_use]
pub fn go_name(name: &[u8]) -> String {
    let name = decoded(name);
    shorten(name[..boundary(&name, MAX_DEMANGLED_BYTES)].to_owned())
}

/// The name of a stub of the procedure linkage table, `FUNCTION@plt`.
#[must_use]
pub fn stub_name(name: &[u8]) -> String {
    const END: &str = "@plt";
    let function = name.strip_suffix(END.as_bytes()).unwrap_or(name);
    demangle(function) + END
}

/// A name without control characters.
fn decoded(name: &[u8]) -> Cow<'_, str> {
    let plain = str::from_utf8(name).ok();
    let plain = plain.filter(|name| name.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
    plain.map_or_else(|| text::decode_bytes(name).into(), Cow::Borrowed)
}

/// The demangled name of a symbol; the symbol itself if it is not mangled.
#[must_use]
pub fn demangle(symbol: &[u8]) -> String {
    let name = decoded(symbol);
    let name = without_suffixes(without_version(&name));
    let mut shown = Limited::default();
    let is_demangled = if let Ok(rust) = rust(name) {
        // The demangler continues after an error of the writer, but has a limit of its own.
        let _ = write!(shown, "{rust:#}");
        true
    } else {
        cpp(name, &mut shown)
    };
    if !is_demangled {
        shown = Limited::default();
        let cython = cython::name(name);
        let _ = shown.write_str(cython.as_deref().unwrap_or(name));
    }
    // Rust's identifiers may have any character, which the symbol has in other words.
    let mut name = printable(&shown.0).into_owned();
    if name.contains(ABI_TAG) {
        name = without_abi_tags(&name);
    }
    if name.contains("basic_string<") {
        for string in STRINGS {
            name = name.replace(string, "std::string");
        }
    }
    shorten(name)
}

/// A name without its ABI tags.
fn without_abi_tags(name: &str) -> String {
    let mut parts = name.split(ABI_TAG);
    let first = parts.next().unwrap_or_default();
    let rest = parts.map(|part| part.split_once(']').map_or("", |(_, after)| after));
    iter::once(first).chain(rest).collect()
}

/// The name without the version that the linker appends (`memcpy@@GLIBC_2.14`).
fn without_version(name: &str) -> &str {
    match name.find('@') {
        Some(end) if end > 0 => &name[..end],
        _ => name,
    }
}

/// The name without the suffixes of parts of a function.
fn without_suffixes(name: &str) -> &str {
    let mut name = name;
    while let Some((before, last)) = name.rsplit_once('.') {
        let is_number = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
        let (before, last) = match before.rsplit_once('.') {
            Some((before, mark)) if is_number && PART_SUFFIXES.contains(&mark) => (before, mark),
            _ => (before, last),
        };
        // A number alone distinguishes functions with the same name.
        let is_suffix = PART_SUFFIXES.contains(&last) || is_number && !before.contains("._omp_fn");
        if before.is_empty() || !is_suffix {
            break;
        }
        name = before;
    }
    name
}

/// Parses a mangled name of Rust.
fn rust(name: &str) -> Result<rustc_demangle::Demangle<'_>, ()> {
    /// Bytes of the hash at the end, with its length.
    const HASH: usize = 3 + 16;
    let is_legacy = || {
        // Mangled names of C++ look the same but for the hash.
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

/// Demangles a name of C++; returns whether it was one.
fn cpp(name: &str, into: &mut Limited) -> bool {
    if !name.starts_with("_Z") {
        return false;
    }
    // A suffix that was kept, such as `._omp_fn.0`.
    let (name, mark) = name.split_at(name.find('.').unwrap_or(name.len()));
    let name = thunk_target(name).map_or(Cow::Borrowed(name), |rest| format!("_Z{rest}").into());
    // A tail that cannot be parsed is the types of parameters, which are not shown.
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

/// The name of a thunk's target: a thunk adjusts the pointer to the object and jumps to a virtual
/// function.
fn thunk_target(name: &str) -> Option<&str> {
    /// Skips the offset by which the pointer is adjusted.
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

/// Text of at most [`MAX_DEMANGLED_BYTES`] bytes.
#[derive(Default)]
struct Limited(String);

impl Limited {
    fn is_full(&self) -> bool {
        self.0.len() > MAX_DEMANGLED_BYTES - 4
    }
}

impl fmt::Write for Limited {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = boundary(text, MAX_DEMANGLED_BYTES - self.0.len());
        self.0.push_str(&text[..end]);
        // Stops the writer: the rest may be very long.
        if end < text.len() {
            Err(fmt::Error)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{demangle, go_name};
    use crate::symbolize::shorten::MAX_BYTES;
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
    fn characters_that_the_symbol_has_in_other_words_are_escaped_too() {
        assert!(demangle(b"_RICu1aE").contains("\\u{80}"));
        assert!(demangle("_RNvC4testu8gdel_5qa".as_bytes()).contains("gödel"));
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
            (
                "_ZNSt7__cxx119to_stringB5cxx11Ei",
                "std::__cxx11::to_string",
            ),
            (
                "_ZNSt3__16vectorIiNS_9allocatorIiEEE9push_backB8ne190107ERKi",
                "std::__1::vector<int, std::__1::allocator<int> >::push_back",
            ),
            (
                "_ZN8__main__5outerB2v1B38c8tJTIeFIjxB2IKSgI4CrvQClQZ6FczSBAA_3dEx",
                "__main__::outer",
            ),
            ("_ZThn16_N1A3runEv", "A::run"),
            ("_ZTv0_n24_NSt1BD0Ev", "std::B::~B"),
            ("_ZTch0_v0_n16_N1A5cloneEv", "A::clone"),
            // With a return type that cannot be parsed.
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
    fn names_of_cython_are_those_of_python() {
        check(&[
            ("__pyx_pw_4work_4Pool_1run.isra.0", "work.Pool.run"),
            ("__Pyx_PyObject_Call.constprop.0", "__Pyx_PyObject_Call"),
        ]);
    }

    #[test]
    fn parts_of_a_function_have_its_name() {
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
    fn a_long_name_is_truncated() {
        let long = demangle("é".repeat(MAX_BYTES).as_bytes());
        assert!(long.len() <= MAX_BYTES && long.len() > MAX_BYTES - 4);
        assert!(long.ends_with("é…"));
        // 2^60 letters: back references are expanded again and again.
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
