//! The rule of the kernel half for a row of call-frame information.

use agent_common::unwind::{CfaRule, Rule, RuleFlags, Saved};
use gimli::{
    CommonInformationEntry, Register, RegisterRule, UnwindExpression, UnwindSection, UnwindTableRow,
};

use super::{
    evaluate::Storage,
    expression::{self, Bytes, Value},
    machine::Machine,
    reason::{Reason, Unknown},
};

/// What a row is to be understood with.
pub(super) struct Translator<'t, S> {
    pub(super) machine: &'t Machine,
    pub(super) section: &'t S,
}

/// Where a register of the caller is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In itself.
    Unchanged,
    /// Nowhere any more.
    Undefined,
    /// So far from the CFA.
    Frame(Saved),
    /// So far from the frame pointer.
    FramePointer(Saved),
    /// Where a rule cannot say.
    Elsewhere,
}

impl<'a, S: UnwindSection<Bytes<'a>>> Translator<'_, S> {
    /// The rule for a row of a function; what is lost of it is counted.
    pub(super) fn rule(
        &self,
        common: &CommonInformationEntry<Bytes<'a>>,
        row: &UnwindTableRow<usize, Storage>,
        unknown: &mut Unknown,
    ) -> Result<Rule, Reason> {
        if common.return_address_register() != self.machine.return_address {
            return Err(Reason::ReturnAddress);
        }
        if common.is_signal_trampoline() {
            return Ok(Rule {
                cfa: CfaRule::SIGNAL,
                ..Rule::UNKNOWN
            });
        }
        let place = |register| self.place(common, row, register);
        let return_address = match place(self.machine.return_address) {
            Place::Undefined => {
                return Ok(Rule {
                    cfa: CfaRule::END,
                    ..Rule::UNKNOWN
                });
            }
            Place::Unchanged if self.machine.has_link_register => Saved::UNCHANGED,
            Place::Frame(saved) => saved,
            _ => return Err(Reason::ReturnAddress),
        };
        // Elsewhere than at the CFA it is only while the stack is switched.
        match row.register(self.machine.stack_pointer) {
            None | Some(RegisterRule::SameValue | RegisterRule::ValOffset(0)) => {}
            Some(_) => return Err(Reason::StackPointer),
        }
        let mut lost = |reason| {
            unknown.count(reason);
            Saved::LOST
        };
        let mut rule = self.cfa(common, row)?;
        rule.return_address = return_address;
        rule.frame_pointer = match place(self.machine.frame_pointer) {
            Place::Unchanged => Saved::UNCHANGED,
            Place::Frame(saved) => saved,
            Place::FramePointer(saved) => {
                rule.flags = RuleFlags::BY_FRAME_POINTER;
                saved
            }
            Place::Undefined | Place::Elsewhere => lost(Reason::FramePointer),
        };
        if let Some(base) = self.machine.base {
            rule.base = match place(base) {
                Place::Unchanged => Saved::UNCHANGED,
                Place::Frame(saved) => saved,
                // Functions that realign their stack do this; only a caller that does so too and
                // was made by another compiler misses it.
                Place::FramePointer(_) | Place::Undefined | Place::Elsewhere => lost(Reason::Base),
            };
        }
        Ok(rule)
    }

    /// The part of a rule that says how the CFA is known.
    fn cfa(
        &self,
        common: &CommonInformationEntry<Bytes<'a>>,
        row: &UnwindTableRow<usize, Storage>,
    ) -> Result<Rule, Reason> {
        let value = match row.cfa() {
            gimli::CfaRule::RegisterAndOffset { register, offset } => {
                Value::Register(*register, *offset)
            }
            gimli::CfaRule::Expression(expression) => self
                .run(common, expression, None)
                .ok_or(Reason::FrameExpression)?,
        };
        let (cfa, register, offset, addend) = match value {
            Value::Register(register, offset) => (CfaRule::REGISTER, register, offset, 0),
            Value::Dereferenced(register, offset, addend) => {
                (CfaRule::DEREFERENCED, register, offset, addend)
            }
            Value::DereferencedIndexed(index, offset, addend) => {
                (CfaRule::INDEXED, index, offset, addend)
            }
            Value::Linkage(addend, byte) => {
                (CfaRule::PLT, self.machine.stack_pointer, byte, addend)
            }
            _ => return Err(Reason::FrameExpression),
        };
        let register = self.machine.general(register);
        Ok(Rule {
            cfa,
            register: register.ok_or(Reason::FrameRegister)?,
            offset: offset.try_into().map_err(|_| Reason::FrameOffset)?,
            addend: addend.try_into().map_err(|_| Reason::FrameOffset)?,
            ..Rule::UNKNOWN
        })
    }

    /// Where the caller's `register` is.
    fn place(
        &self,
        common: &CommonInformationEntry<Bytes<'a>>,
        row: &UnwindTableRow<usize, Storage>,
        register: Register,
    ) -> Place {
        match row.register(register) {
            None | Some(RegisterRule::SameValue) => Place::Unchanged,
            Some(RegisterRule::Register(source)) if source == register => Place::Unchanged,
            Some(RegisterRule::Undefined) => Place::Undefined,
            Some(RegisterRule::Offset(offset)) => {
                saved(offset).map_or(Place::Elsewhere, Place::Frame)
            }
            Some(RegisterRule::Expression(expression)) => self
                .run(common, &expression, Some(Value::Frame(0)))
                .and_then(|address| self.place_at(row, address))
                .unwrap_or(Place::Elsewhere),
            Some(_) => Place::Elsewhere,
        }
    }

    /// The place at an address.
    fn place_at(&self, row: &UnwindTableRow<usize, Storage>, address: Value) -> Option<Place> {
        match (address, row.cfa()) {
            (Value::Frame(offset), _) => saved(offset).map(Place::Frame),
            (Value::Register(from, at), gimli::CfaRule::RegisterAndOffset { register, offset })
                if from == *register =>
            {
                saved(at.checked_sub(*offset)?).map(Place::Frame)
            }
            (Value::Register(from, offset), _) if from == self.machine.frame_pointer => {
                saved(offset).map(Place::FramePointer)
            }
            _ => None,
        }
    }

    fn run(
        &self,
        common: &CommonInformationEntry<Bytes<'a>>,
        expression: &UnwindExpression<usize>,
        first: Option<Value>,
    ) -> Option<Value> {
        let bytes = expression.get(self.section).ok()?;
        expression::run(self.machine, bytes, common.encoding(), first)
    }
}

/// A distance in bytes as rules have it.
fn saved(bytes: i64) -> Option<Saved> {
    let words = i16::try_from(bytes / 8).ok()?;
    (bytes % 8 == 0 && Saved(words) > Saved::LOST).then_some(Saved::at(words))
}
