//! Names of functions that Cython has compiled: `pandas._libs.hashtable.Int64HashTable.factorize` for
//! `__pyx_pw_6pandas_5_libs_9hashtable_14Int64HashTable_15factorize`.
//!
//! ```text
//! symbol    [fused] __pyx_ kind _ path
//! fused     __pyx_fuse_ numbers                  which of the types a function is compiled for
//! kind      f            of `cdef`
//!           pw, pf       of `def`: for its caller, and itself
//!           gb           the body of a generator or coroutine
//!           getprop, setprop, tp_new, …          of attributes and types
//! path      (length identifier _)* name          modules, classes and functions
//! name      [number] identifier                  which one of its scope; of pw and gb always
//! ```
//!
//! Source: `Cython/Compiler/Naming.py` and `Symtab.py` (`mangle`, `next_id`). A number before a name may look like the
//! length of an identifier: then the kind decides, and what is usual.

/// Most parts of a path.
const MAX_PARTS: usize = 32;

/// Before the numbers of the types of a fused function.
const FUSED: &str = "__pyx_fuse_";

/// Before the symbol of a method by which a type calls it.
const SPECIAL: &str = "__pyx_specialmethod_";

/// The name of the function of a symbol; [`None`] for one that is not of Cython, or not of a function of a program.
pub(super) fn name(symbol: &str) -> Option<String> {
    // A suffix that was kept, such as `._omp_fn.0`.
    let (symbol, mark) = symbol.split_at(symbol.find('.').unwrap_or(symbol.len()));
    let symbol = symbol.strip_prefix(SPECIAL).unwrap_or(symbol);
    let rest = without_types(symbol).strip_prefix("__pyx_")?;
    let (kind, path) = rest.split_once('_')?;
    let numbers = match kind {
        "pw" | "gb" => Numbers::Always,
        "pf" => Numbers::Even,
        "f" | "getprop" | "setprop" => Numbers::Never,
        "tp" => {
            let (slot, path) = path.split_once('_')?;
            let (parts, name) = split(path, Numbers::Never)?;
            let is_slot = slot.bytes().all(|byte| byte.is_ascii_lowercase());
            return is_slot.then(|| format!("{}.{name}.tp_{slot}{mark}", parts.join(".")));
        }
        _ => return None,
    };
    let (parts, name) = split(path, numbers)?;
    Some(format!("{}.{name}{mark}", parts.join(".")))
}

/// Whether a name has a number before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Numbers {
    Always,
    /// An even one but 0, which is not there.
    Even,
    Never,
}

/// The parts of a path, at least one, and the name.
fn split(path: &str, numbers: Numbers) -> Option<(Vec<&str>, &str)> {
    let (first, mut rest) = part(path)?;
    let mut parts = vec![first];
    let mut found = None;
    loop {
        let name = name_of(rest, numbers).map(without_types);
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            found = Some((parts.len(), name));
        }
        let next = part(rest).filter(|_| parts.len() < MAX_PARTS);
        let is_known = found.is_some() && numbers == Numbers::Even;
        let next = next.filter(|(part, after)| !is_known || is_scope(part, after));
        let Some((part, after)) = next else {
            break;
        };
        parts.push(part);
        rest = after;
        if numbers == Numbers::Even {
            found = None;
        }
    }
    let (count, name) = found?;
    parts.truncate(count);
    Some((parts, name))
}

/// The name, without its number.
fn name_of(rest: &str, numbers: Numbers) -> Option<&str> {
    let name = rest.trim_start_matches(|it: char| it.is_ascii_digit());
    let number = &rest[..rest.len() - name.len()];
    let is_odd = || {
        number
            .bytes()
            .next_back()
            .is_some_and(|digit| digit % 2 == 1)
    };
    match numbers {
        Numbers::Always if number.is_empty() => None,
        Numbers::Even if is_odd() => None,
        Numbers::Never if !number.is_empty() => None,
        _ => Some(name),
    }
}

/// The first part of a path, and the rest.
fn part(path: &str) -> Option<(&str, &str)> {
    let digits = path.bytes().take_while(u8::is_ascii_digit).count();
    let length: usize = path.get(..digits)?.parse().ok()?;
    let (part, rest) = path.get(digits..)?.split_at_checked(length)?;
    let rest = rest.strip_prefix('_')?;
    (length > 0 && !rest.is_empty()).then_some((part, rest))
}

/// Whether what could be a part is one, and not the beginning of a name with a number before it; `after` is what follows.
fn is_scope(part: &str, after: &str) -> bool {
    let is_class = part.trim_start_matches('_').starts_with(char::is_uppercase);
    let is_special = after.starts_with("__") && after.ends_with("__");
    is_class || is_special || after.starts_with(|it: char| it.is_ascii_digit())
}

/// The name without the types that it is compiled for.
fn without_types(name: &str) -> &str {
    let Some(rest) = name.strip_prefix(FUSED) else {
        return name;
    };
    let mut rest = rest.trim_start_matches(|it: char| it.is_ascii_digit());
    while let Some(more) = rest.strip_prefix('_') {
        let after = more.trim_start_matches(|it: char| it.is_ascii_digit());
        if after.len() == more.len() {
            break;
        }
        rest = after;
    }
    rest
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop, proptest};

    use super::name;

    /// Symbols of `scipy`, `sklearn`, `numpy`, `h5py`, `gevent`, `uvloop`, `ddtrace` and `msgpack`.
    #[test]
    fn functions_have_their_modules_and_classes() {
        for (symbol, expected) in [
            (
                "__pyx_f_6uvloop_4loop_4Loop__call_later",
                "uvloop.loop.Loop._call_later",
            ),
            (
                "__pyx_f_5scipy_7special_14cython_special_pro_cv",
                "scipy.special.cython_special.pro_cv",
            ),
            (
                "__pyx_f_4work___pyx_unpickle_Pool__set_state",
                "work.__pyx_unpickle_Pool__set_state",
            ),
            ("__pyx_pw_4work_1spin", "work.spin"),
            ("__pyx_pf_4work_spin", "work.spin"),
            ("__pyx_pf_4work_2helper", "work.helper"),
            (
                "__pyx_pw_4h5py_8_objects_8ObjectID_1__cinit__",
                "h5py._objects.ObjectID.__cinit__",
            ),
            (
                "__pyx_pf_4h5py_8_objects_8ObjectID_4_close",
                "h5py._objects.ObjectID._close",
            ),
            (
                "__pyx_pf_4h5py_3h5d_9DatasetID_5shape___get__",
                "h5py.h5d.DatasetID.shape.__get__",
            ),
            (
                "__pyx_pw_5scipy_6linalg_21_decomp_interpolative_65idzp_svd",
                "scipy.linalg._decomp_interpolative.idzp_svd",
            ),
            (
                "__pyx_pf_5scipy_6linalg_21_decomp_interpolative_30iddr_id",
                "scipy.linalg._decomp_interpolative.iddr_id",
            ),
            (
                "__pyx_pw_7ddtrace_8internal_7_tagset_3encode_tagset_values",
                "ddtrace.internal._tagset.encode_tagset_values",
            ),
            (
                "__pyx_pf_7sklearn_7cluster_14_k_means_elkan_16init_bounds_sparse._omp_fn.0",
                "sklearn.cluster._k_means_elkan.init_bounds_sparse._omp_fn.0",
            ),
            (
                "__pyx_gb_6uvloop_4loop_4Loop_24create_datagram_endpoint_2generator32",
                "uvloop.loop.Loop.create_datagram_endpoint.generator32",
            ),
            (
                "__pyx_getprop_6gevent_5libev_8corecext_7watcher_loop",
                "gevent.libev.corecext.watcher.loop",
            ),
            (
                "__pyx_tp_dealloc_6gevent_14_gevent_cevent_AsyncResult",
                "gevent._gevent_cevent.AsyncResult.tp_dealloc",
            ),
            (
                "__pyx_specialmethod___pyx_pw_7msgpack_9_cmsgpack_8Unpacker_21__next__",
                "msgpack._cmsgpack.Unpacker.__next__",
            ),
        ] {
            assert_eq!(name(symbol).as_deref(), Some(expected), "{symbol}");
        }
    }

    #[test]
    fn a_function_for_several_types_is_one() {
        for (symbol, expected) in [
            (
                "__pyx_fuse_1__pyx_pw_7sklearn_12linear_model_8_cd_fast_23enet_coordinate_descent_gram",
                "sklearn.linear_model._cd_fast.enet_coordinate_descent_gram",
            ),
            (
                "__pyx_fuse_0_1__pyx_f_5scipy_7special_14cython_special_eval_sh_legendre",
                "scipy.special.cython_special.eval_sh_legendre",
            ),
            (
                "__pyx_pw_5scipy_5stats_6_sobol_35__pyx_fuse_1_fast_forward",
                "scipy.stats._sobol._fast_forward",
            ),
            (
                "__pyx_pw_5scipy_7special_14cython_special_677__pyx_fuse_1erfcx",
                "scipy.special.cython_special.erfcx",
            ),
        ] {
            assert_eq!(name(symbol).as_deref(), Some(expected), "{symbol}");
        }
    }

    /// A number before a name that looks like the length of a part.
    #[test]
    fn a_number_is_none_of_a_part() {
        for (symbol, expected) in [
            ("__pyx_pw_4work_3get_x", "work.get_x"),
            ("__pyx_pf_4work_4load_x", "work.load_x"),
            ("__pyx_pf_5scipy_6linalg_2foo", "scipy.linalg.foo"),
            (
                "__pyx_pf_5scipy_6sparse_7csgraph_5_flow_maximum_flow",
                "scipy.sparse.csgraph._flow.maximum_flow",
            ),
            ("__pyx_pw_4work_4Pool_1run", "work.Pool.run"),
            ("__pyx_pf_4work_4Pool_run", "work.Pool.run"),
        ] {
            assert_eq!(name(symbol).as_deref(), Some(expected), "{symbol}");
        }
    }

    #[test]
    fn other_symbols_are_left_alone() {
        for symbol in [
            "__pyx_pymod_exec__cd_fast",
            "__pyx_memoryview_convert_item_to_object",
            "__Pyx_CyFunction_Vectorcall_O",
            "__pyx_getprop___pyx_memoryview_shape",
            "__pyx_pw_",
            "__pyx_pw_4work_",
            "__pyx_pw_99work_1spin",
            "__pyx_f_spin",
            "PyObject_Call",
            "",
        ] {
            assert_eq!(name(symbol), None, "{symbol}");
        }
    }

    proptest! {
        #[test]
        fn no_symbol_makes_it_panic(
            fused in any::<bool>(),
            kind in prop::sample::select(vec!["pw", "pf", "f", "gb", "tp_new", "getprop"]),
            rest in "([0-9]{0,3}[a-zA-Z_é.]{0,6}){0,12}",
        ) {
            let fused = if fused { "__pyx_fuse_0_1" } else { "" };
            let symbol = format!("{fused}__pyx_{kind}_{rest}");
            if let Some(name) = name(&symbol) {
                assert!(name.len() < symbol.len() + 8);
            }
        }
    }
}
