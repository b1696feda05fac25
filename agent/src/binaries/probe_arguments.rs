//! Where the arguments of USDT probes are, as assemblers write it.
//!
//! An argument is its width and an operand: `8@%rdi`, `-4@16(%rsp)`, `8@$5`; on ARM `8@x0`, `-4@[sp, 16]`, `8@5`. The
//! width of a signed one is negative. What is not of this form, as an address relative to the program counter or with
//! an index, is not understood.

use agent_common::probe_argument::{ProbeArgument, Width};
use goblin::elf::header::{EM_AARCH64, EM_X86_64};

/// The registers in the order of `pt_regs`, by their names for 64, 32, 16 and 8 bits.
const REGISTERS: [(u8, [&str; 4]); 16] = [
    (0, ["r15", "r15d", "r15w", "r15b"]),
    (1, ["r14", "r14d", "r14w", "r14b"]),
    (2, ["r13", "r13d", "r13w", "r13b"]),
    (3, ["r12", "r12d", "r12w", "r12b"]),
    (4, ["rbp", "ebp", "bp", "bpl"]),
    (5, ["rbx", "ebx", "bx", "bl"]),
    (6, ["r11", "r11d", "r11w", "r11b"]),
    (7, ["r10", "r10d", "r10w", "r10b"]),
    (8, ["r9", "r9d", "r9w", "r9b"]),
    (9, ["r8", "r8d", "r8w", "r8b"]),
    (10, ["rax", "eax", "ax", "al"]),
    (11, ["rcx", "ecx", "cx", "cl"]),
    (12, ["rdx", "edx", "dx", "dl"]),
    (13, ["rsi", "esi", "si", "sil"]),
    (14, ["rdi", "edi", "di", "dil"]),
    (19, ["rsp", "esp", "sp", "spl"]),
];

/// The word of `sp` on ARM; the registers `x0` to `x30` are before it.
const ARM_STACK_POINTER: u8 = 31;

/// The arguments of a probe; [`None`] in place of one that is not understood.
pub fn parse(machine: u16, arguments: &str) -> Vec<Option<ProbeArgument>> {
    // Only operands of ARM have spaces, within brackets.
    let mut depth = 0_u32;
    let is_between = |letter: char| {
        match letter {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ' ' && depth == 0
    };
    let arguments = arguments.split(is_between).filter(|it| !it.is_empty());
    arguments.map(|it| argument(machine, it)).collect()
}

fn argument(machine: u16, text: &str) -> Option<ProbeArgument> {
    let (width, operand) = text.split_once('@')?;
    let width: i8 = width.parse().ok()?;
    let width = Width {
        bytes: width.unsigned_abs(),
        is_signed: width < 0,
    };
    match machine {
        EM_X86_64 => x86_64(operand, width),
        EM_AARCH64 => aarch64(operand, width),
        _ => None,
    }
}

fn x86_64(operand: &str, width: Width) -> Option<ProbeArgument> {
    let register = |name: &str| {
        let mut all = REGISTERS.iter();
        let name = name.strip_prefix('%')?;
        Some(all.find(|(_, names)| names.contains(&name))?.0)
    };
    if let Some(constant) = operand.strip_prefix('$') {
        return ProbeArgument::constant(constant.parse().ok()?);
    }
    let Some((offset, base)) = operand.split_once('(') else {
        return ProbeArgument::in_register(register(operand)?, width);
    };
    let offset = if offset.is_empty() {
        0
    } else {
        offset.parse().ok()?
    };
    let base = register(base.strip_suffix(')')?)?;
    ProbeArgument::in_memory(base, offset, width)
}

fn aarch64(operand: &str, width: Width) -> Option<ProbeArgument> {
    let register = |name: &str| match name {
        "sp" => Some(ARM_STACK_POINTER),
        name => {
            let number = name.strip_prefix(['x', 'w'])?.parse::<u8>().ok()?;
            (number < ARM_STACK_POINTER).then_some(number)
        }
    };
    let number = |text: &str| text.trim().trim_start_matches('#').parse::<i32>().ok();
    if let Some(memory) = operand.strip_prefix('[') {
        let memory = memory.strip_suffix(']')?;
        let (base, offset) = match memory.split_once(',') {
            Some((base, offset)) => (base, number(offset)?),
            None => (memory, 0),
        };
        return ProbeArgument::in_memory(register(base.trim())?, offset, width);
    }
    match register(operand) {
        Some(register) => ProbeArgument::in_register(register, width),
        None => ProbeArgument::constant(number(operand)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn width(bytes: u8, is_signed: bool) -> Width {
        Width { bytes, is_signed }
    }

    #[test]
    fn operands_of_both_machines_are_understood() {
        let register = ProbeArgument::in_register;
        let memory = ProbeArgument::in_memory;
        let found = parse(EM_X86_64, "8@%rdi -4@%eax 8@-16(%rsp) 2@(%r12) 8@$5 8@$-1");
        let expected = [
            register(14, width(8, false)),
            register(10, width(4, true)),
            memory(19, -16, width(8, false)),
            memory(3, 0, width(2, false)),
            ProbeArgument::constant(5),
            ProbeArgument::constant(-1),
        ];
        assert_eq!(found, expected);
        let found = parse(EM_AARCH64, "8@x0 -4@w30 8@[sp, 16] 8@[x1] 8@[sp,#-8] 8@5");
        let expected = [
            register(0, width(8, false)),
            register(30, width(4, true)),
            memory(31, 16, width(8, false)),
            memory(1, 0, width(8, false)),
            memory(31, -8, width(8, false)),
            ProbeArgument::constant(5),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_not_understood_is_not_guessed() {
        for operand in [
            "8@counter(%rip)",
            "8@8(%rax,%rbx,4)",
            "8@%xmm0",
            "8f@%xmm0",
            "3@%rax",
            "8@$99999999999",
            "8@",
            "@%rax",
            "%rax",
        ] {
            assert_eq!(parse(EM_X86_64, operand), [None], "{operand}");
        }
        for operand in ["8@x31", "8@[x0, x1]", "8@[x0", "8@v0"] {
            assert_eq!(parse(EM_AARCH64, operand), [None], "{operand}");
        }
        assert_eq!(parse(62, ""), []);
    }
}
