//! From a row of call-frame information to the rule of the BPF programs.

use agent_common::unwind::{CfaRule, Rule, RuleFlags, Saved};
use gimli::{
    CommonInformationEntry, Register, RegisterRule, UnwindExpression, UnwindSection, UnwindTableRow,
};

use super::{
    arch::Arch,
    expression::{self, Bytes, Value},
    reason::{UnknownCounts, UnknownReason},
    storage::Storage,
};

/// Translates rows to rules.
pub(super) struct Translator<'t, S> {
    pub(super) arch: &'t Arch,
    pub(super) section: &'t S,
}

/// Where a register of the caller is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RegisterLocation {
    /// In the same register.
    Unchanged,
    /// Not saved, and overwritten.
    Undefined,
    /// At an offset from the CFA.
    Frame(Saved),
    /// At an offset from the frame pointer.
    FramePointer(Saved),
    /// Anywhere that a rule cannot express.
    Elsewhere,
}

impl<'a, S: UnwindSection<Bytes<'a>>> Translator<'_, S> {
    /// The rule for a row of a function; registers that are lost are counted.
    pub(super) fn rule(
        &self,
        common: &CommonInformationEntry<Bytes<'a>>,
        row: &UnwindTableRow<usize, Storage>,
        unknown: &mut UnknownCounts,
    ) -> Result<Rule, UnknownReason> {
        if common.return_address_register() != self.arch.return_address {
            return Err(UnknownReason::ReturnAddress);
        }
        if common.is_signal_trampoline() {
            return Ok(Rule {
                cfa: CfaRule::SIGNAL,
                ..Rule::UNKNOWN
            });
        }
        let location = |register| self.location(common, row, register);
        let return_address = match location(self.arch.return_address) {
            RegisterLocation::Undefined => {
                return Ok(Rule {
                    cfa: CfaRule::END,
                    ..Rule::UNKNOWN
                });
            }
            RegisterLocation::Unchanged if self.arch.has_link_register => Saved::UNCHANGED,
            RegisterLocation::Frame(saved) => saved,
            _ => return Err(UnknownReason::ReturnAddress),
        };
        // The caller's stack pointer is the CFA, except where code switches stacks.
        match row.register(self.arch.stack_pointer) {
            None | Some(RegisterRule::SameValue | RegisterRule::ValOffset(0)) => {}
            Some(_) => return Err(UnknownReason::StackPointer),
        }
        let mut lost = |reason| {
            unknown.count(reason);
            Saved::LOST
        };
        let mut rule = self.cfa(common, row)?;
        rule.return_address = return_address;
        rule.frame_pointer = match location(self.arch.frame_pointer) {
            RegisterLocation::Unchanged => Saved::UNCHANGED,
            RegisterLocation::Frame(saved) => saved,
            RegisterLocation::FramePointer(saved) => {
                rule.flags = RuleFlags::BY_FRAME_POINTER;
                saved
            }
            RegisterLocation::Undefined | RegisterLocation::Elsewhere => {
                lost(UnknownReason::FramePointer)
            }
        };
        if let Some(base) = self.arch.base {
            rule.base = match location(base) {
                RegisterLocation::Unchanged => Saved::UNCHANGED,
                RegisterLocation::Frame(saved) => saved,
                // Functions that realign their stack do this. Only a caller that does so too, of
                // another compiler, needs the value.
                RegisterLocation::FramePointer(_)
                | RegisterLocation::Undefined
                | RegisterLocation::Elsewhere => lost(UnknownReason::Base),
            };
        }
        Ok(rule)
    }

    /// A rule with only its CFA set.
    fn cfa(
        &self,
        common: &CommonInformationEntry<Bytes<'a>>,
        row: &UnwindTableRow<usize, Storage>,
    ) -> Result<Rule, UnknownReason> {
        let value = match row.cfa() {
            gimli::CfaRule::RegisterAndOffset { register, offset } => {
                Value::Register(*register, *offset)
            }
            gimli::CfaRule::Expression(expression) => self
                .run(common, expression, None)
                .ok_or(UnknownReason::FrameExpression)?,
        };
        let (cfa, register, offset, addend) = match value {
            Value::Register(register, offset) => (CfaRule::REGISTER, register, offset, 0),
            Value::Dereferenced(register, offset, addend) => {
                (CfaRule::DEREFERENCED, register, offset, addend)
            }
            Value::DereferencedIndexed(index, offset, addend) => {
                (CfaRule::INDEXED, index, offset, addend)
            }
            Value::Plt(addend, byte) => (CfaRule::LINKAGE, self.arch.stack_pointer, byte, addend),
            _ => return Err(UnknownReason::FrameExpression),
        };
        let register = self.arch.general(register);
        Ok(Rule {
            cfa,
            register: register.ok_or(UnknownReason::FrameRegister)?,
            offset: offset.try_into().map_err(|_| UnknownReason::FrameOffset)?,
            addend: addend.try_into().map_err(|_| UnknownReason::FrameOffset)?,
            ..Rule::UNKNOWN
        })
    }

    /// The location of the caller's `register`.
    fn location(
        &self,
        common: &CommonInformationEntry<Bytes<'a>>,
        row: &UnwindTableRow<usize, Storage>,
        register: Register,
    ) -> RegisterLocation {
        match row.register(register) {
            None | Some(RegisterRule::SameValue) => RegisterLocation::Unchanged,
            Some(RegisterRule::Register(source)) if source == register => {
                RegisterLocation::Unchanged
            }
            Some(RegisterRule::Undefined) => RegisterLocation::Undefined,
            Some(RegisterRule::Offset(offset)) => {
                saved(offset).map_or(RegisterLocation::Elsewhere, RegisterLocation::Frame)
            }
            Some(RegisterRule::Expression(expression)) => self
                .run(common, &expression, Some(Value::Frame(0)))
                .and_then(|address| self.location_at(row, address))
                .unwrap_or(RegisterLocation::Elsewhere),
            Some(_) => RegisterLocation::Elsewhere,
        }
    }

    /// The location of a register that is saved at an address.
    fn location_at(
        &self,
        row: &UnwindTableRow<usize, Storage>,
        address: Value,
    ) -> Option<RegisterLocation> {
        match (address, row.cfa()) {
            (Value::Frame(offset), _) => saved(offset).map(RegisterLocation::Frame),
            (Value::Register(from, at), gimli::CfaRule::RegisterAndOffset { register, offset })
                if from == *register =>
            {
                saved(at.checked_sub(*offset)?).map(RegisterLocation::Frame)
            }
            (Value::Register(from, offset), _) if from == self.arch.frame_pointer => {
                saved(offset).map(RegisterLocation::FramePointer)
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
        expression::run(self.arch, bytes, common.encoding(), first)
    }
}

/// An offset in bytes as rules store it; [`None`] where it is no multiple of eight or out of range.
fn saved(bytes: i64) -> Option<Saved> {
    let words = i16::try_from(bytes / 8).ok()?;
    (bytes % 8 == 0 && Saved(words) > Saved::LOST).then_some(Saved::at(words))
}
