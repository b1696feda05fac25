//! Functions of the kernel that BPF programs call (kfuncs): their numbers are put into the calls before the programs
//! are loaded.

use agent_common::kernel_function::KernelFunction;
use aya::Btf;
use aya_obj::btf::BtfKind;
use goblin::elf::{Elf, section_header::SHF_EXECINSTR};

use super::requirements::running_kernel;

/// A call of a helper, in the first byte of an instruction: `BPF_JMP | BPF_CALL`.
const CALL: u8 = 0x85;

/// Who is called, in the second one: `BPF_PSEUDO_KFUNC_CALL`, whatever the registers.
const OF_KERNEL: u8 = 0x20;

/// Bytes of an instruction.
const INSTRUCTION: usize = 8;

/// The names of the functions.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    KernelFunction::ALL.into_iter().map(KernelFunction::name)
}

/// The first kernel that has them as the programs need them. In 6.7 a loop over the threads of a process does not end
/// when the thread with which it has begun ends, or another one executes a program.
const FIRST_KERNEL: (u32, u32) = (6, 8);

/// The functions as the programs and as the kernel know them; [`None`] where the kernel lacks one of them.
pub(super) fn numbers(functions: &Btf) -> Option<Vec<(u32, u32)>> {
    if running_kernel()? < FIRST_KERNEL {
        return None;
    }
    let number = |function: KernelFunction| {
        let number = functions.id_by_type_name_kind(function.name(), BtfKind::Func);
        Some((function.helper(), number.ok()?))
    };
    KernelFunction::ALL.into_iter().map(number).collect()
}

/// The object with calls of the functions with these numbers.
pub(super) fn link(object: &[u8], numbers: &[(u32, u32)]) -> Option<Vec<u8>> {
    let mut linked = object.to_vec();
    let elf = Elf::parse(object).ok()?;
    for section in elf.section_headers {
        if section.sh_flags & u64::from(SHF_EXECINSTR) == 0 {
            continue;
        }
        let code = linked.get_mut(section.file_range()?)?;
        for instruction in code.chunks_exact_mut(INSTRUCTION) {
            let &mut [CALL, 0, 0, 0, ref mut called @ ..] = instruction else {
                continue;
            };
            let helper = u32::from_ne_bytes(called.try_into().ok()?);
            let function = numbers.iter().find(|(it, _)| *it == helper);
            if let Some((_, number)) = function {
                called.copy_from_slice(&number.to_ne_bytes());
                instruction[1] = OF_KERNEL;
            }
        }
    }
    Some(linked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::object::OBJECT;

    /// How many instructions call this.
    fn calls(object: &[u8], kind: u8, number: u32) -> usize {
        let call = [[CALL, kind, 0, 0], number.to_ne_bytes()].concat();
        let instructions = object.chunks_exact(INSTRUCTION);
        instructions.filter(|it| **it == *call).count()
    }

    #[test]
    fn calls_get_the_numbers_of_the_kernel_and_nothing_else_changes() {
        let numbers = KernelFunction::ALL.map(|it| (it.helper(), 100_000 + it as u32));
        let linked = link(OBJECT, &numbers).unwrap();
        let mut all = 0;
        for (helper, number) in numbers {
            let found = calls(OBJECT, 0, helper);
            assert!(found > 0, "{helper:x} is not called");
            assert_eq!(calls(&linked, OF_KERNEL, number), found);
            assert_eq!(calls(&linked, 0, helper), 0);
            all += found;
        }
        let instructions = OBJECT.chunks(INSTRUCTION).zip(linked.chunks(INSTRUCTION));
        assert_eq!(
            instructions.filter(|(one, other)| one != other).count(),
            all
        );
        assert_eq!(linked.len(), OBJECT.len());
    }
}
