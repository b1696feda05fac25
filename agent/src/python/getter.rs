//! The address of a variable, from the machine code of a short function that uses it.
//!
//! Up to CPython 3.6 the list of interpreters is a static variable, whose symbol `strip` removes;
//! but every file exports its getter, `PyInterpreterState_Head`. Exactly these forms are decoded:
//!
//! ```text
//! x86-64                          aarch64
//!   [endbr64]                       [bti c]
//!   [push %rbp; mov %rsp,%rbp]      adrp xN, page
//!   mov variable(%rip),%rax         [add xN, xN, #low]
//!   [pop %rbp | leave]              ldr x0, [xN, #low]
//!   ret | repz ret                  ret
//! ```
//!
//! `PyEval_ReleaseLock` of 2.7, which passes the lock of the GIL on to another function, is the same with
//! `%rdi` instead of `%rax` and a jump instead of the return.

use goblin::elf::header::{EM_AARCH64, EM_X86_64};

/// Bytes of the longest form.
pub(super) const CODE_BYTES: usize = 24;

/// The address of the 64-bit variable that the function at `address` returns; [`None`] where its
/// code has none of the forms. `code` is the start of the function, `machine` the `e_machine` of
/// the ELF header.
#[must_use]
pub(super) fn returned_variable(machine: u16, address: u64, code: &[u8]) -> Option<u64> {
    variable(machine, address, code, Use::Returned)
}

/// The same for a function that passes the variable to the function that it ends with a jump to.
#[must_use]
pub(super) fn passed_variable(machine: u16, address: u64, code: &[u8]) -> Option<u64> {
    variable(machine, address, code, Use::Passed)
}

/// What a function does with the variable.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Returned,
    Passed,
}

fn variable(machine: u16, address: u64, code: &[u8], used: Use) -> Option<u64> {
    match machine {
        EM_X86_64 => x86_64(address, code, used),
        EM_AARCH64 => aarch64(address, code, used),
        _ => None,
    }
}

fn x86_64(address: u64, code: &[u8], used: Use) -> Option<u64> {
    const ENDBR64: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];
    const MAKE_FRAME: &[u8] = &[0x55, 0x48, 0x89, 0xe5];
    let load: &[u8] = match used {
        Use::Returned => &[0x48, 0x8b, 0x05],
        Use::Passed => &[0x48, 0x8b, 0x3d],
    };
    let rest = code.strip_prefix(ENDBR64).unwrap_or(code);
    let rest = rest.strip_prefix(MAKE_FRAME).unwrap_or(rest);
    let (distance, rest) = rest.strip_prefix(load)?.split_first_chunk()?;
    // The displacement is relative to the next instruction.
    let next = address.wrapping_add((code.len() - rest.len()) as u64);
    let is_end = match used {
        Use::Returned => matches!(
            rest,
            [0xc3, ..] | [0xf3 | 0x5d | 0xc9, 0xc3, ..] | [0x5d | 0xc9, 0xf3, 0xc3, ..]
        ),
        Use::Passed => matches!(rest, [0xe9, ..] | [0x5d, 0xe9, ..]),
    };
    let distance = i64::from(i32::from_le_bytes(*distance));
    is_end.then(|| next.wrapping_add_signed(distance))
}

fn aarch64(address: u64, code: &[u8], used: Use) -> Option<u64> {
    const BTI_C: u32 = 0xd503_245f;
    const RETURN: u32 = 0xd65f_03c0;

    let (words, _) = code.as_chunks();
    let mut instructions = words
        .iter()
        .map(|word| u32::from_le_bytes(*word))
        .peekable();
    let mut instruction = address;
    if instructions.next_if_eq(&BTI_C).is_some() {
        instruction = instruction.wrapping_add(4);
    }
    // `adrp`: a signed number of 4 KiB pages, whose two lowest bits are stored separately.
    let page = instructions
        .next()
        .filter(|it| it & 0x9f00_0000 == 0x9000_0000)?;
    let register = page & 0x1f;
    let pages = u64::from(page >> 29 & 0x3) | u64::from(page >> 5 & 0x7_ffff) << 2;
    // The sign is bit 20.
    let pages = (pages ^ 1 << 20).wrapping_sub(1 << 20);
    let mut variable = (instruction & !0xfff).wrapping_add(pages << 12);
    // `add` of an unshifted 12-bit immediate to the same register.
    let is_add = |it: &u32| it & 0xffc0_03ff == 0x9100_0000 | register << 5 | register;
    if let Some(add) = instructions.next_if(is_add) {
        variable = variable.wrapping_add((add >> 10 & 0xfff).into());
    }
    // 64-bit `ldr` into `x0`, with an offset in units of eight bytes.
    let load = instructions
        .next()
        .filter(|it| it & 0xffc0_03ff == 0xf940_0000 | register << 5)?;
    variable = variable.wrapping_add(u64::from(load >> 10 & 0xfff) * 8);
    let end = instructions.next()?;
    let is_end = match used {
        Use::Returned => end == RETURN,
        // `b`, with any distance.
        Use::Passed => end & 0xfc00_0000 == 0x1400_0000,
    };
    is_end.then_some(variable)
}

#[cfg(test)]
mod tests {
    use super::{passed_variable, returned_variable};
    use goblin::elf::header::{EM_AARCH64, EM_RISCV, EM_X86_64};
    use proptest::prelude::{any, proptest};

    #[test]
    fn x86_64_forms_are_decoded() {
        let read = |code: &[u8]| returned_variable(EM_X86_64, 0x11_6e00, code);
        // As compiled by GCC for 2.7.18.
        let plain = [0x48, 0x8b, 0x05, 0xc9, 0x08, 0x0e, 0x00, 0xc3];
        assert_eq!(read(&plain), Some(0x1f_76d0));
        let marked = [&[0xf3, 0x0f, 0x1e, 0xfa], &plain[..]].concat();
        assert_eq!(read(&marked), Some(0x1f_76d4));
        let framed = [&[0x55, 0x48, 0x89, 0xe5], &plain[..7], &[0x5d, 0xc3]].concat();
        assert_eq!(read(&framed), Some(0x1f_76d4));
        let behind = [0x48, 0x8b, 0x05, 0xf9, 0xff, 0xff, 0xff, 0xf3, 0xc3];
        assert_eq!(read(&behind), Some(0x11_6e00));
    }

    #[test]
    fn aarch64_forms_are_decoded() {
        let read = |words: &[u32]| {
            let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            returned_variable(EM_AARCH64, 0x12_3450, &code)
        };
        // adrp x0, 3 pages on; ldr x0, [x0, #0x6d0]; ret
        let plain = [0xf000_0000, 0xf943_6800, 0xd65f_03c0];
        assert_eq!(read(&plain), Some(0x12_66d0));
        let marked = [&[0xd503_245f], &plain[..]].concat();
        assert_eq!(read(&marked), Some(0x12_66d0));
        // adrp x1, one page back; add x1, x1, #0x10; ldr x0, [x1]; ret
        let behind = [0xf0ff_ffe1, 0x9100_4021, 0xf940_0020, 0xd65f_03c0];
        assert_eq!(read(&behind), Some(0x12_2010));
        // The load is from another register.
        assert_eq!(read(&[0xf000_0001, 0xf943_6800, 0xd65f_03c0]), None);
    }

    #[test]
    fn a_passed_variable_is_decoded() {
        // As compiled by GCC for 2.7.18.
        let code = [
            0x48, 0x8b, 0x3d, 0xb9, 0x7b, 0x10, 0x00, 0xe9, 0xc4, 0xed, 0xf4, 0xff,
        ];
        assert_eq!(passed_variable(EM_X86_64, 0xe_f950, &code), Some(0x1f_7510));
        assert_eq!(returned_variable(EM_X86_64, 0xe_f950, &code), None);
        // adrp x0, 3 pages on; ldr x0, [x0, #0x6d0]; b back
        let words: [u32; 3] = [0xf000_0000, 0xf943_6800, 0x17ff_fff0];
        let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(
            passed_variable(EM_AARCH64, 0x12_3450, &code),
            Some(0x12_66d0)
        );
        assert_eq!(returned_variable(EM_AARCH64, 0x12_3450, &code), None);
    }

    #[test]
    fn other_code_is_not_decoded() {
        let read = |code: &[u8]| returned_variable(EM_X86_64, 0, code);
        // A 32-bit load, a load without a return, a truncated load.
        assert_eq!(read(&[0x8b, 0x05, 0, 0, 0, 0, 0xc3]), None);
        assert_eq!(read(&[0x48, 0x8b, 0x05, 0, 0, 0, 0, 0x48]), None);
        assert_eq!(read(&[0x48, 0x8b, 0x05, 0, 0]), None);
        assert_eq!(
            returned_variable(EM_RISCV, 0, &[0x48, 0x8b, 0x05, 0, 0, 0, 0, 0xc3]),
            None
        );
    }

    proptest! {
        #[test]
        fn no_code_makes_it_panic(address in any::<u64>(), code in any::<Vec<u8>>()) {
            let _ = returned_variable(EM_X86_64, address, &code);
            let _ = returned_variable(EM_AARCH64, address, &code);
            let _ = passed_variable(EM_X86_64, address, &code);
            let _ = passed_variable(EM_AARCH64, address, &code);
        }
    }
}
