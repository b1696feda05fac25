//! The registers of a thread: `elf_prstatus` of the kernel's `linux/elfcore.h`.

use agent_common::native::Registers;
use zerocopy::FromBytes as _;

/// `pr_cursig`, `pr_pid` and `pr_reg` of the structure.
const SIGNAL: usize = 12;
const TID: usize = 32;
const REGISTERS: usize = 112;

/// Bytes of the structure: the registers are followed by a number that says whether there are those of floating point.
pub(super) const BYTES: usize = if cfg!(target_arch = "aarch64") {
    392
} else {
    336
};

/// Errors of system calls that are made again after a signal: `ERESTARTSYS`, `ERESTARTNOINTR`, `ERESTARTNOHAND`,
/// `ERESTART_RESTARTBLOCK`; and `EINTR`, of those that are not.
const INTERRUPTED: [u64; 5] = [512, 513, 514, 516, 4];

/// A thread, as the structure has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Status {
    /// Its id, in the PID namespace of the process.
    pub(super) tid: u32,
    /// The signal that it is to handle, 0 for none.
    pub(super) signal: u16,
    /// Its registers in user space.
    pub(super) registers: Registers,
    /// Its thread pointer, where the structure has it.
    pub(super) thread_pointer: Option<u64>,
}

impl Status {
    /// [`None`] for one of another size.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; BYTES] = bytes.try_into().ok()?;
        let signal = bytes.get(SIGNAL..)?.first_chunk()?;
        let tid = bytes.get(TID..)?.first_chunk()?;
        let (registers, thread_pointer) = registers(bytes.get(REGISTERS..)?)?;
        Some(Self {
            tid: u32::from_le_bytes(*tid),
            signal: u16::from_le_bytes(*signal),
            registers,
            thread_pointer,
        })
    }
}

/// `user_regs_struct`: the registers of `pt_regs`, then `fs_base`.
#[cfg(not(target_arch = "aarch64"))]
fn registers(bytes: &[u8]) -> Option<(Registers, Option<u64>)> {
    let (registers, rest) = Registers::read_from_prefix(bytes).ok()?;
    let thread_pointer = rest.first_chunk().map(|it| u64::from_le_bytes(*it));
    Some((registers, thread_pointer))
}

/// `user_pt_regs`: the registers of `pt_regs` up to `pstate`.
#[cfg(target_arch = "aarch64")]
fn registers(bytes: &[u8]) -> Option<(Registers, Option<u64>)> {
    const WORDS: usize = 34;
    let (words, _) = <[u64; WORDS]>::read_from_prefix(bytes).ok()?;
    let mut registers = Registers::ZERO;
    registers.words[..WORDS].copy_from_slice(&words);
    // The first argument, if it is made again.
    registers.words[WORDS] = words[0];
    registers.words[Registers::SYSTEM_CALL] = u64::MAX;
    Some((registers, None))
}

/// The registers of a thread as they were while it was in the system call that the dump has interrupted; in none if it
/// ran. `instruction` reads the instruction at an address.
#[cfg(not(target_arch = "aarch64"))]
pub(super) fn at_rest(
    mut registers: Registers,
    _: impl Fn(u64) -> Option<u32>,
) -> (Registers, bool) {
    /// `rax`.
    const RESULT: usize = 10;
    let error = registers.words[RESULT].wrapping_neg();
    let waited = registers.system_call().is_some() && INTERRUPTED.contains(&error);
    if !waited {
        registers.words[Registers::SYSTEM_CALL] = u64::MAX;
    }
    (registers, waited)
}

/// The same. The kernel has forgotten the call by then: one that is made again has its instruction next, another one has
/// it behind it.
#[cfg(target_arch = "aarch64")]
pub(super) fn at_rest(
    mut registers: Registers,
    instruction: impl Fn(u64) -> Option<u32>,
) -> (Registers, bool) {
    /// `svc #0`.
    const CALL: u32 = 0xd400_0001;
    let next = registers.words[32];
    let is_call = |address: u64| instruction(address) == Some(CALL);
    let error = registers.words[0].wrapping_neg();
    let waited = is_call(next) || INTERRUPTED.contains(&error) && is_call(next.wrapping_sub(4));
    if waited {
        registers.words[Registers::SYSTEM_CALL] = registers.words[8];
    }
    (registers, waited)
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_waits_whose_system_call_was_interrupted() {
        let mut registers = Registers::at_rest(Some((202, [0x7f00; 6])), 0x7ffe, 0x40_0000);
        for (result, waited) in [
            (-512_i64, true),
            (-516, true),
            (-4, true),
            (0, false),
            (-11, false),
        ] {
            registers.words[10] = result.cast_unsigned();
            let (found, has_waited) = at_rest(registers, |_| None);
            assert_eq!(has_waited, waited, "{result}");
            assert_eq!(found.system_call().is_some(), waited, "{result}");
        }
        // After an interrupt.
        registers.words[Registers::SYSTEM_CALL] = u64::MAX;
        registers.words[10] = (-512_i64).cast_unsigned();
        assert!(!at_rest(registers, |_| None).1);
    }

    #[test]
    fn the_structure_has_a_size() {
        let mut bytes = vec![0; BYTES];
        bytes[SIGNAL] = 11;
        bytes[TID] = 7;
        bytes[REGISTERS + 21 * 8] = 5;
        let status = Status::parse(&bytes).unwrap();
        assert_eq!((status.tid, status.signal), (7, 11));
        assert_eq!(status.thread_pointer, Some(5));
        bytes.push(0);
        assert_eq!(Status::parse(&bytes), None);
        assert_eq!(Status::parse(&[]), None);
    }
}
