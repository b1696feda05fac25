//! Targets of direct jumps in machine code.

use goblin::elf::header::{EM_AARCH64, EM_X86_64};
use iced_x86::{Decoder, DecoderOptions, Mnemonic, OpKind};

/// Calls `visit` with the target of each direct jump in `code`, which is at `address`; `machine` is
/// the `e_machine` of the ELF header. Calls and indirect jumps are skipped.
pub fn targets(machine: u16, address: u64, code: &[u8], visit: impl FnMut(u64)) {
    match machine {
        EM_X86_64 => x86_64(address, code, visit),
        EM_AARCH64 => aarch64(address, code, visit),
        _ => {}
    }
}

fn x86_64(address: u64, code: &[u8], mut visit: impl FnMut(u64)) {
    for instruction in &mut Decoder::with_ip(64, code, address, DecoderOptions::NONE) {
        let is_call = matches!(instruction.mnemonic(), Mnemonic::Call | Mnemonic::Xbegin);
        if instruction.op0_kind() == OpKind::NearBranch64 && !is_call {
            visit(instruction.near_branch_target());
        }
    }
}

fn aarch64(address: u64, code: &[u8], mut visit: impl FnMut(u64)) {
    let (words, _) = code.as_chunks();
    for (nth, word) in (0..).zip(words) {
        let word = u32::from_le_bytes(*word);
        // Width and position of the displacement.
        let (bits, lower) = if word & 0xfc00_0000 == 0x1400_0000 {
            // b
            (26, 0)
        } else if word & 0xff00_0000 == 0x5400_0000 || word & 0x7e00_0000 == 0x3400_0000 {
            // b.cond, bc.cond, cbz, cbnz
            (19, 5)
        } else if word & 0x7e00_0000 == 0x3600_0000 {
            // tbz, tbnz
            (14, 5)
        } else {
            continue;
        };
        let upper = 32 - bits;
        let displacement = (word << (upper - lower)).cast_signed() >> upper;
        let instruction = address.wrapping_add(4 * nth);
        visit(instruction.wrapping_add_signed(4 * i64::from(displacement)));
    }
}

#[cfg(test)]
mod tests {
    use super::targets;
    use goblin::elf::header::{EM_AARCH64, EM_RISCV, EM_X86_64};
    use proptest::prelude::{any, proptest};

    /// The targets of jumps in code at 0x1000.
    fn read(machine: u16, code: &[u8]) -> Vec<u64> {
        let mut found = Vec::new();
        targets(machine, 0x1000, code, |target| found.push(target));
        found
    }

    #[test]
    fn x86_64_targets_are_decoded() {
        let read = |code: &[u8]| read(EM_X86_64, code);
        // jmp 0x1000 on; jne 0x100 back; jmp 0x10 on, short; with a nop before each
        assert_eq!(read(&[0x90, 0xe9, 0, 0x10, 0, 0]), [0x2006]);
        assert_eq!(read(&[0x90, 0x0f, 0x85, 0, 0xff, 0xff, 0xff]), [0xf07]);
        assert_eq!(read(&[0x90, 0xeb, 0x10]), [0x1013]);
        // call; jmp *%rax; mov $0x10e9, %eax; a truncated jmp
        assert!(read(&[0xe8, 0, 0x10, 0, 0, 0xff, 0xe0]).is_empty());
        assert!(read(&[0xb8, 0xe9, 0x10, 0, 0, 0x90, 0x90]).is_empty());
        assert!(read(&[0xe9, 0, 0x10, 0]).is_empty());
    }

    #[test]
    fn aarch64_targets_are_decoded() {
        let read_words = |words: &[u32]| {
            let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            read(EM_AARCH64, &code)
        };
        // b 0x40 on; b 4 back; b.ne 8 on; cbz x1, 8 back; tbnz x2, #3, 0x10 on
        assert_eq!(read_words(&[0x1400_0010, 0x17ff_ffff]), [0x1040, 0x1000]);
        assert_eq!(read_words(&[0x5400_0041, 0xb4ff_ffc1]), [0x1008, 0xffc]);
        assert_eq!(read_words(&[0x3718_0082]), [0x1010]);
        // bl, br x1, ret, add
        assert!(read_words(&[0x9400_0010, 0xd61f_0020, 0xd65f_03c0, 0x9100_4021]).is_empty());
    }

    proptest! {
        #[test]
        fn no_code_makes_it_panic(address in any::<u64>(), code in any::<Vec<u8>>()) {
            for machine in [EM_X86_64, EM_AARCH64, EM_RISCV] {
                targets(machine, address, &code, |_| {});
            }
        }
    }
}
