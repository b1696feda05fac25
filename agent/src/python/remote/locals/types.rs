//! Classes: which are the interpreter's own, and the names of the others.
//!
//! A class is known by its name, by flags that only it and classes derived from it have, and by not being made at run
//! time, as those of programs are.

use std::collections::HashMap;

use agent_common::{
    layout::{Layout, TextStyle},
    memory::{Fault, UserAddr, UserMemory},
};

use super::{
    super::{
        class_flags::{BYTES, DICT, FAMILIES, HEAP, INTEGER, LIST, READY, SHORT, TEXT, TUPLE},
        structure::{Structure, read_bytes},
    },
    collections,
};
use crate::python::text;

/// `tp_dict`, after `tp_flags`.
const DICT_AFTER_FLAGS: u16 = 96;

/// Most bytes of the name of a class.
const NAME_BYTES: u64 = 96;

/// Most entries of the dictionary of a class in which its module is looked for: one of the first, but in 2.7.
const MODULE_ENTRIES: usize = 256;

/// Most characters of the name of a module.
const MODULE_CHARACTERS: u64 = 100;

/// Most classes that are remembered.
const MAX_KNOWN: usize = 1000;

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    None,
    Ellipsis,
    NotImplemented,
    Bool,
    /// `int` in 2.7.
    ShortInteger,
    /// `int`, or `long` in 2.7.
    Integer,
    Float,
    Complex,
    Text,
    Bytes,
    Tuple,
    List,
    Dict,
    Set,
    FrozenSet,
    Cell,
    /// Something else.
    Other,
}

/// A class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Class {
    pub(super) kind: Kind,
    /// Its name, with its module where that is known.
    pub(super) name: String,
}

/// The classes that were seen and do not change, by their addresses.
#[derive(Default)]
pub(super) struct Types(HashMap<u64, Class>);

impl Types {
    /// The class of the object at this address.
    ///
    /// # Errors
    ///
    /// [`Fault`] when it is no object.
    pub(super) fn class_of<M: UserMemory>(
        &mut self,
        memory: &M,
        layout: &Layout,
        object: UserAddr,
    ) -> Result<Class, Fault> {
        if !object.could_be_structure() {
            return Err(Fault);
        }
        let address = UserAddr(memory.word(object.field(layout.object.class))?);
        if let Some(class) = self.0.get(&address.0) {
            return Ok(class.clone());
        }
        let (class, is_fixed) = read(memory, layout, address)?;
        if is_fixed && self.0.len() < MAX_KNOWN {
            self.0.insert(address.0, class.clone());
        }
        Ok(class)
    }
}

/// The class at this address, and whether it stays what it is.
fn read<M: UserMemory>(
    memory: &M,
    layout: &Layout,
    address: UserAddr,
) -> Result<(Class, bool), Fault> {
    let fields = &layout.object;
    let flags = fields.class_flags();
    let dictionary = flags + DICT_AFTER_FLAGS;
    let class = Structure::read(memory, address, u64::from(dictionary) + 8)?;
    let meta = UserAddr(class.word(fields.class.into()));
    if !meta.could_be_structure() {
        return Err(Fault);
    }
    // `type` is of the class `type`.
    let is_type = memory.word(meta.field(fields.class))? == meta.0;
    let flags = class.word(flags.into());
    // `tp_name`, after `ob_type` and `ob_size`.
    let name = name(memory, UserAddr(class.word(u64::from(fields.class) + 16)))?;
    if flags & READY == 0 || name.is_empty() {
        return Err(Fault);
    }
    let is_fixed = flags & HEAP == 0;
    if is_fixed && is_type {
        let is_old = layout.text.style == TextStyle::BYTES;
        let kind = kind(&name, flags, is_old);
        return Ok((Class { kind, name }, true));
    }
    let dictionary = UserAddr(class.word(dictionary.into()));
    let has_module = name.contains('.') || is_fixed;
    let module = (!has_module)
        .then(|| module(memory, layout, dictionary))
        .flatten();
    let name = match module {
        Some(module) => format!("{module}.{name}"),
        None => name,
    };
    let kind = Kind::Other;
    Ok((Class { kind, name }, is_fixed))
}

fn kind(name: &str, flags: u64, is_old: bool) -> Kind {
    let (kind, family) = match (name, is_old) {
        ("NoneType", _) => (Kind::None, 0),
        ("ellipsis", _) => (Kind::Ellipsis, 0),
        ("NotImplementedType", _) => (Kind::NotImplemented, 0),
        ("bool", false) => (Kind::Bool, INTEGER),
        ("bool", true) => (Kind::Bool, SHORT),
        ("int", true) => (Kind::ShortInteger, SHORT),
        ("int", false) | ("long", true) => (Kind::Integer, INTEGER),
        ("float", _) => (Kind::Float, 0),
        ("complex", _) => (Kind::Complex, 0),
        ("str", false) => (Kind::Text, TEXT),
        ("bytes", false) | ("str", true) => (Kind::Bytes, BYTES),
        ("tuple", _) => (Kind::Tuple, TUPLE),
        ("list", _) => (Kind::List, LIST),
        ("dict", _) => (Kind::Dict, DICT),
        ("set", false) => (Kind::Set, 0),
        ("frozenset", false) => (Kind::FrozenSet, 0),
        ("cell", _) => (Kind::Cell, 0),
        _ => (Kind::Other, flags & (FAMILIES | SHORT)),
    };
    let families = if is_old { FAMILIES | SHORT } else { FAMILIES };
    if flags & families == family & families {
        kind
    } else {
        Kind::Other
    }
}

fn name<M: UserMemory>(memory: &M, address: UserAddr) -> Result<String, Fault> {
    let skipped = address.0 % 8;
    let start = UserAddr(address.0 - skipped);
    let mut bytes = Vec::new();
    for nth in 0..NAME_BYTES / 8 {
        let word = Structure::read(memory, UserAddr(start.0.wrapping_add(8 * nth)), 8)?;
        bytes.extend(word.bytes());
        if word.bytes().contains(&0) && (nth > 0 || bytes[skipped as usize..].contains(&0)) {
            break;
        }
    }
    let bytes = bytes.get(skipped as usize..).unwrap_or_default();
    let end = bytes.iter().position(|byte| *byte == 0);
    Ok(text::decode_bytes(&bytes[..end.unwrap_or(bytes.len())]))
}

/// `__module__` in the dictionary of a class.
fn module<M: UserMemory>(memory: &M, layout: &Layout, dictionary: UserAddr) -> Option<String> {
    let items = collections::dictionary(memory, layout, dictionary, MODULE_ENTRIES).ok()?;
    let text = |object: u64| ascii(memory, layout, UserAddr(object));
    let found = items
        .entries
        .into_iter()
        .find(|[key, _]| text(*key).as_deref() == Some("__module__"));
    text(found?[1])
}

/// A short string of ASCII characters.
fn ascii<M: UserMemory>(memory: &M, layout: &Layout, object: UserAddr) -> Option<String> {
    let fields = &layout.text;
    let head = Structure::read(memory, object, fields.bytes.into()).ok()?;
    let state = head.half(fields.state.into()) & u32::from(fields.state_mask)
        | u32::from(fields.state_bits);
    let length = head.word(fields.length.into());
    let bit = |bit: u16| (state >> (bit & 31)) & 1 == 1;
    let is_ascii = bit(fields.ascii_bit) || fields.style == TextStyle::BYTES;
    if !is_ascii || !bit(fields.compact_bit) || length > MODULE_CHARACTERS {
        return None;
    }
    let data = object.field(fields.ascii_data);
    let bytes = read_bytes(memory, data, usize::try_from(length).ok()?).ok()?;
    bytes.is_ascii().then(|| text::decode_bytes(&bytes))
}
