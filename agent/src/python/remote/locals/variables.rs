//! The variables of a frame: their names are in its code object, their values in the frame.

use agent_common::{
    memory::{Fault, UserAddr, UserMemory},
    python::locate_text,
};

use super::{
    super::structure::{Structure, read_bytes},
    LocalsReader, MAX_VARIABLES, Variable, Variables,
    collections::{self, Items},
    frames::FoundFrame,
};
use crate::python::{text, variables::VariableNames};

/// Most variables of a function.
const MAX_SLOTS: usize = 4096;

/// `CO_OPTIMIZED`: it is a function, not a module or the body of a class, whose variables are in a dictionary.
const OPTIMIZED: u32 = 0x1;
/// `CO_VARARGS` and `CO_VARKEYWORDS`.
const EXTRA_ARGUMENTS: [u32; 2] = [0x4, 0x8];

/// `CO_FAST_CELL` and `CO_FAST_FREE`.
const CELL_OR_FREE: u8 = 0x40 | 0x80;

/// A variable in a frame.
struct Slot {
    /// The string object.
    name: u64,
    /// Its place among the arguments, if it is one.
    argument: Option<usize>,
    /// Whether its value is in a cell, once the function has begun.
    is_cell: bool,
    /// Its place in the frame.
    nth: usize,
}

impl<M: UserMemory> LocalsReader<'_, M> {
    /// The variables of a frame that have a value.
    pub(super) fn variables(&mut self, frame: &FoundFrame) -> Result<Variables, Fault> {
        let slots = self.slots(frame.code)?;
        let Some(last) = slots.iter().map(|slot| slot.nth).max() else {
            return Ok(Variables::default());
        };
        let memory = self.values.memory;
        let first = frame.address.field(self.values.layout.frame.locals);
        let values = Structure::read(memory, first, 8 * (last as u64 + 1))?;
        let mut found = Vec::new();
        for slot in &slots {
            let value = values.word(8 * slot.nth as u64);
            // The low bits are a tag from 3.14 on, also of null.
            let is_set = value & !7 != 0 || value & 3 == 3;
            if is_set && !(slot.is_cell && self.values.is_empty_cell(value)?) {
                found.push((slot, value));
            }
        }
        found.sort_by_key(|(slot, _)| (slot.argument.is_none(), slot.argument, slot.nth));
        let mut variables = Variables::default();
        for (nth, (slot, value)) in found.iter().enumerate() {
            if nth == MAX_VARIABLES || self.bytes_left == 0 {
                variables.more = found.len() - nth;
                break;
            }
            let value = if slot.is_cell {
                self.values.show_content(*value, self.value_characters)?
            } else {
                self.values.show(*value, self.value_characters)
            };
            let name = self.name(UserAddr(slot.name))?;
            let variable = Variable { name, value };
            let bytes = variable.name.len() + variable.value.len();
            self.bytes_left = self.bytes_left.saturating_sub(bytes);
            if slot.argument.is_some() {
                variables.arguments.push(variable);
            } else {
                variables.locals.push(variable);
            }
        }
        // From 3.13 on other threads can set them.
        let after = Structure::read(memory, first, 8 * (last as u64 + 1))?;
        if after.bytes() != values.bytes() {
            return Err(Fault);
        }
        Ok(variables)
    }

    /// The variables that a code object names, with a place in the frame for each.
    fn slots(&self, code: UserAddr) -> Result<Vec<Slot>, Fault> {
        let (memory, layout, facts) = (self.values.memory, self.values.layout, self.values.facts);
        let body = code.field(layout.object.class + 8);
        let head = Structure::read(memory, body, u64::from(facts.names.end()))?;
        let flags = head.half(facts.flags.into());
        if flags & OPTIMIZED == 0 {
            return Ok(Vec::new());
        }
        let count = |offset: u16| head.half(offset.into()) as usize;
        let extra = EXTRA_ARGUMENTS.iter().filter(|flag| flags & **flag != 0);
        let arguments = count(facts.argument_count)
            .saturating_add(facts.keyword_only_count.map_or(0, count))
            .saturating_add(extra.count());
        let names = |offset: u16| {
            let tuple = UserAddr(head.word(offset.into()));
            let Items { entries, is_cut } =
                collections::tuple(memory, layout, facts, tuple, MAX_SLOTS)?;
            let names = entries.into_iter().map(|[name, _]| name);
            if is_cut {
                Err(Fault)
            } else {
                Ok(names.collect::<Vec<u64>>())
            }
        };
        let mut slots = Vec::new();
        match facts.names {
            VariableNames::Together { names: of, kinds } => {
                let names = names(of)?;
                let kinds = UserAddr(head.word(kinds.into()));
                let kinds = kinds.field(layout.text.bytes_data);
                let kinds = read_bytes(memory, kinds, names.len())?;
                for (nth, (name, kind)) in names.into_iter().zip(kinds).enumerate() {
                    slots.push(Slot {
                        name,
                        argument: (nth < arguments).then_some(nth),
                        is_cell: kind & CELL_OR_FREE != 0,
                        nth,
                    });
                }
            }
            VariableNames::Separate {
                variables,
                cells,
                free,
            } => {
                let (variables, cells, free) = (names(variables)?, names(cells)?, names(free)?);
                for (nth, name) in variables.iter().copied().enumerate() {
                    // One that is in a cell has its first value here in 2.7.
                    if !cells.contains(&name) {
                        slots.push(Slot {
                            name,
                            argument: (nth < arguments).then_some(nth),
                            is_cell: false,
                            nth,
                        });
                    }
                }
                let own = &variables[..arguments.min(variables.len())];
                for (nth, name) in cells.into_iter().chain(free).enumerate() {
                    slots.push(Slot {
                        name,
                        argument: own.iter().position(|argument| *argument == name),
                        is_cell: true,
                        nth: variables.len() + nth,
                    });
                }
            }
        }
        if slots.len() > MAX_SLOTS {
            return Err(Fault);
        }
        Ok(slots)
    }

    fn name(&mut self, name: UserAddr) -> Result<String, Fault> {
        let (memory, layout) = (self.values.memory, self.values.layout);
        let (data, found) = locate_text(memory, &mut self.values.scratch, &layout.text, name)?;
        let characters = read_bytes(memory, data, found.bytes.into())?;
        Ok(text::decode(found, &characters))
    }
}
