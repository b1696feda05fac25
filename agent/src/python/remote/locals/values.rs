//! Values of variables as Python's `repr` has them.
//!
//! Invariants: a container whose items change while they are written down is read again, and at last shown by its class
//! and address; objects that are read for one value are bounded.

use agent_common::{
    layout::{Layout, TextStyle},
    memory::{Fault, UserAddr, UserMemory},
    scratch::Scratch,
};

use super::{
    super::structure::{Structure, read_bytes},
    collections::{self, Items},
    numbers,
    output::Output,
    strings,
    types::{Class, Kind, Types},
};
use crate::python::variables::{IntegerStyle, VariableFacts};

/// Containers in containers.
const MAX_DEPTH: usize = 6;

/// Objects that are read for one value.
const MAX_OBJECTS: u32 = 2000;

/// Times that a container is read that changes.
const ATTEMPTS: u32 = 3;

/// Most digits of 30 bits of an integer, which take 4,600 decimal places.
const MAX_DIGITS: u64 = 512;

/// More characters than any string has.
const MAX_LENGTH: u64 = 1 << 44;

/// Reads values.
pub(super) struct Values<'a, M> {
    pub(super) memory: &'a M,
    pub(super) layout: &'a Layout,
    pub(super) facts: &'a VariableFacts,
    pub(super) scratch: Box<Scratch>,
    types: Types,
    /// Objects that may still be read for this value.
    objects_left: u32,
    /// The containers that are being read, the outermost first.
    path: Vec<UserAddr>,
}

impl<'a, M: UserMemory> Values<'a, M> {
    pub(super) fn new(memory: &'a M, layout: &'a Layout, facts: &'a VariableFacts) -> Self {
        Self {
            memory,
            layout,
            facts,
            scratch: Box::default(),
            types: Types::default(),
            objects_left: 0,
            path: Vec::new(),
        }
    }

    /// The value that a frame refers to, at most so many characters.
    pub(super) fn show(&mut self, value: u64, most: usize) -> String {
        self.objects_left = MAX_OBJECTS;
        self.path.clear();
        let mut output = Output::new(most);
        // From 3.14 on the low bits are a tag; this is one of a number.
        if value & 3 == 3 {
            output.push_str(&(value.cast_signed() >> 2).to_string());
            return output.finish();
        }
        let object = UserAddr(value & !7);
        let start = output.mark();
        if self.write(&mut output, object).is_err() {
            output.reset(start);
            output.push_str(&format!("<unreadable at {:#x}>", object.0));
        }
        output.finish()
    }

    /// The same of what a cell refers to, which other threads may change, or of the value itself where it is no cell.
    pub(super) fn show_content(&mut self, value: u64, most: usize) -> Result<String, Fault> {
        for _ in 0..ATTEMPTS {
            let content = self.content_of_cell(value)?;
            if content & !7 == 0 {
                break;
            }
            let text = self.show(content, most);
            if self.content_of_cell(value)? == content {
                return Ok(text);
            }
        }
        // The cell by its class and address.
        Ok(self.show(value, most))
    }

    /// Whether a variable is in a cell, and has no value.
    pub(super) fn is_empty_cell(&mut self, value: u64) -> Result<bool, Fault> {
        Ok(self.content_of_cell(value)? & !7 == 0)
    }

    /// What a cell refers to, or the value itself where it is no cell; 0 for nothing.
    fn content_of_cell(&mut self, value: u64) -> Result<u64, Fault> {
        let object = UserAddr(value & !7);
        let class = self.types.class_of(self.memory, self.layout, object)?;
        match class.kind {
            Kind::Cell => self.memory.word(self.body(object)),
            _ => Ok(value),
        }
    }

    fn body(&self, object: UserAddr) -> UserAddr {
        object.field(self.layout.object.class + 8)
    }

    fn write(&mut self, output: &mut Output, object: UserAddr) -> Result<(), Fault> {
        self.objects_left = self.objects_left.checked_sub(1).ok_or(Fault)?;
        let class = self.types.class_of(self.memory, self.layout, object)?;
        let start = output.mark();
        if self.write_known(output, object, &class).is_err() {
            output.reset(start);
            output.push_str(&format!("<{} at {:#x}>", class.name, object.0));
        }
        Ok(())
    }

    /// An object that can be shown as what it is.
    fn write_known(
        &mut self,
        output: &mut Output,
        object: UserAddr,
        class: &Class,
    ) -> Result<(), Fault> {
        let body = self.body(object);
        match class.kind {
            Kind::None => output.push_str("None"),
            Kind::Ellipsis => output.push_str("Ellipsis"),
            Kind::NotImplemented => output.push_str("NotImplemented"),
            Kind::Bool => {
                let text = match &*self.bool_digits(body)? {
                    "0" => "False",
                    "1" => "True",
                    _ => return Err(Fault),
                };
                output.push_str(text);
            }
            Kind::ShortInteger => {
                let value = self.memory.word(body)?.cast_signed();
                output.push_str(&value.to_string());
            }
            Kind::Integer => {
                let text = self.integer(body)?;
                output.push_str(&text);
                if self.is_old() {
                    output.push('L');
                }
            }
            Kind::Float => {
                let value = f64::from_bits(self.memory.word(body)?);
                output.push_str(&numbers::float(value));
            }
            Kind::Complex => {
                let parts = Structure::read(self.memory, body, 16)?;
                let [real, imaginary] = [0, 8].map(|offset| f64::from_bits(parts.word(offset)));
                output.push_str(&numbers::complex(real, imaginary));
            }
            Kind::Text => self.write_text(output, object)?,
            Kind::Bytes => self.write_bytes(output, object)?,
            Kind::Tuple | Kind::List | Kind::Dict | Kind::Set | Kind::FrozenSet => {
                self.write_items(output, object, class.kind)?;
            }
            Kind::Cell | Kind::Other => return Err(Fault),
        }
        Ok(())
    }

    /// Whether it is 2.7.
    fn is_old(&self) -> bool {
        self.layout.text.style == TextStyle::BYTES
    }

    fn bool_digits(&self, body: UserAddr) -> Result<String, Fault> {
        if self.is_old() {
            return Ok(self.memory.word(body)?.to_string());
        }
        self.integer(body)
    }

    fn integer(&self, body: UserAddr) -> Result<String, Fault> {
        let head = self.memory.word(body)?;
        let (count, is_negative) = match self.facts.integers {
            IntegerStyle::Size => (head.cast_signed().unsigned_abs(), head.cast_signed() < 0),
            // 1 is zero, 2 is negative.
            IntegerStyle::Tag => (head >> 3, head & 3 == 2),
        };
        if count > MAX_DIGITS {
            return Err(Fault);
        }
        let digits = Structure::read(self.memory, body.field(8), count * 4)?;
        let mut digits: Vec<u32> = (0..count).map(|nth| digits.half(4 * nth)).collect();
        // Zero may have a digit.
        if digits == [0] {
            digits.clear();
        }
        numbers::integer(is_negative, &digits).ok_or(Fault)
    }

    fn write_text(&self, output: &mut Output, object: UserAddr) -> Result<(), Fault> {
        let fields = &self.layout.text;
        let head = Structure::read(self.memory, object, fields.bytes.into())?;
        let length = head.word(fields.length.into());
        let state = head.half(fields.state.into()) & u32::from(fields.state_mask);
        let bit = |bit: u16| (state >> (bit & 31)) & 1 == 1;
        let kind = (state >> (fields.kind_bit & 31)) & 7;
        if length > MAX_LENGTH || !matches!(kind, 1 | 2 | 4) {
            return Err(Fault);
        }
        let is_ascii = bit(fields.ascii_bit);
        let data = match (bit(fields.compact_bit), is_ascii) {
            (true, true) => object.field(fields.ascii_data),
            (true, false) => object.field(fields.compact_data),
            (false, _) => UserAddr(self.memory.word(object.field(fields.compact_data))?),
        };
        // One more shows that there are more.
        let count = usize::try_from(length)
            .map_err(|_| Fault)?
            .min(output.left() + 1);
        let bytes = read_bytes(self.memory, data, count * kind as usize)?;
        let characters: Vec<u32> = bytes
            .chunks_exact(kind as usize)
            .map(|chunk| {
                let mut character = [0; 4];
                character[..chunk.len()].copy_from_slice(chunk);
                u32::from_le_bytes(character)
            })
            .collect();
        if is_ascii && !bytes.is_ascii() || !strings::write_text(output, &characters, "") {
            return Err(Fault);
        }
        Ok(())
    }

    fn write_bytes(&self, output: &mut Output, object: UserAddr) -> Result<(), Fault> {
        let fields = &self.layout.text;
        let length = self.memory.word(object.field(fields.bytes_size))?;
        if length > MAX_LENGTH {
            return Err(Fault);
        }
        let count = usize::try_from(length)
            .map_err(|_| Fault)?
            .min(output.left() + 1);
        let bytes = read_bytes(self.memory, object.field(fields.bytes_data), count)?;
        let prefix = if self.is_old() { "" } else { "b" };
        strings::write_bytes(output, &bytes, prefix);
        Ok(())
    }

    /// A container, whose items are the same before and after.
    fn write_items(
        &mut self,
        output: &mut Output,
        object: UserAddr,
        kind: Kind,
    ) -> Result<(), Fault> {
        let (open, close) = match kind {
            Kind::Tuple => ("(", ")"),
            Kind::List => ("[", "]"),
            Kind::FrozenSet => ("frozenset({", "})"),
            _ => ("{", "}"),
        };
        if self.path.contains(&object) || self.path.len() >= MAX_DEPTH {
            output.push_str(open);
            output.push_str("...");
            output.push_str(close);
            return Ok(());
        }
        self.path.push(object);
        // An item and what separates it from the next one.
        let most = output.left() / 3 + 2;
        let start = output.mark();
        let mut result = Err(Fault);
        for _ in 0..ATTEMPTS {
            output.reset(start);
            let Ok(before) = self.items(object, kind, most) else {
                continue;
            };
            match (kind, before.entries.is_empty()) {
                (Kind::Set, true) => output.push_str("set()"),
                (Kind::FrozenSet, true) => output.push_str("frozenset()"),
                _ => {
                    output.push_str(open);
                    if self.write_entries(output, &before, kind).is_err() {
                        continue;
                    }
                    output.push_str(close);
                }
            }
            if self.items(object, kind, most).as_ref() == Ok(&before) {
                result = Ok(());
                break;
            }
        }
        self.path.pop();
        result
    }

    fn write_entries(
        &mut self,
        output: &mut Output,
        items: &Items,
        kind: Kind,
    ) -> Result<(), Fault> {
        for (nth, [first, second]) in items.entries.iter().enumerate() {
            if output.is_full() {
                return Ok(());
            }
            if nth > 0 {
                output.push_str(", ");
            }
            self.write(output, UserAddr(*first))?;
            if kind == Kind::Dict {
                output.push_str(": ");
                self.write(output, UserAddr(*second))?;
            }
        }
        if items.is_cut {
            output.push_str(", …");
        } else if kind == Kind::Tuple && items.entries.len() == 1 {
            output.push(',');
        }
        Ok(())
    }

    fn items(&self, object: UserAddr, kind: Kind, most: usize) -> Result<Items, Fault> {
        let (memory, layout) = (self.memory, self.layout);
        match kind {
            Kind::Tuple => collections::tuple(memory, layout, self.facts, object, most),
            Kind::List => collections::list(memory, layout, object, most),
            Kind::Dict => collections::dictionary(memory, layout, object, most),
            Kind::Set | Kind::FrozenSet => collections::set(memory, layout, object, most),
            _ => Err(Fault),
        }
    }
}
