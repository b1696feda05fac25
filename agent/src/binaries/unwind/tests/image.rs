//! Generated files of nothing but call-frame information, without section headers.

use goblin::elf::{
    header::EM_X86_64,
    program_header::{PF_R, PF_X, PT_GNU_EH_FRAME, PT_LOAD},
};

/// Where the code is that functions may be in; the file does not hold it.
pub(crate) const CODE: u64 = 1 << 32;

/// How much of it there is.
const CODE_BYTES: u64 = 1 << 30;

/// Where the search table is; `.eh_frame` is behind it.
const HEADER: u64 = 64 + 3 * 56;

/// On entry of a function: the CFA is rsp + 8, the return address at the CFA - 8.
pub(crate) const ENTRY: [u8; 5] = [0x0c, 7, 8, 0x90, 1];

/// A file that is being generated.
#[derive(Clone, Debug, Default)]
pub(crate) struct Image {
    /// The contents of `.eh_frame`.
    pub(crate) frames: Vec<u8>,
}

impl Image {
    /// Adds a CIE, and returns its offset.
    pub(crate) fn common(&mut self, augmentation: &str, instructions: &[u8]) -> usize {
        let start = self.frames.len();
        let mut contents = vec![0, 0, 0, 0, 1];
        contents.extend(augmentation.as_bytes());
        // Factors 1 and -8, register 16, one byte of augmentation: addresses have eight bytes.
        contents.extend([0, 1, 0x78, 16, 1, 4]);
        contents.extend(instructions);
        self.entry(&contents);
        start
    }

    /// Adds a function `start` bytes behind [`CODE`].
    pub(crate) fn function(&mut self, common: usize, start: u64, bytes: u64, instructions: &[u8]) {
        let back = u32::try_from(self.frames.len() + 4 - common).unwrap();
        let mut contents = back.to_le_bytes().to_vec();
        contents.extend(CODE.wrapping_add(start).to_le_bytes());
        contents.extend(bytes.to_le_bytes());
        contents.push(0);
        contents.extend(instructions);
        self.entry(&contents);
    }

    fn entry(&mut self, contents: &[u8]) {
        let bytes = u32::try_from(contents.len()).unwrap();
        self.frames.extend(bytes.to_le_bytes());
        self.frames.extend(contents);
    }

    /// The file.
    pub(crate) fn file(&self) -> Vec<u8> {
        let mut file = vec![0; 64];
        file[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        file[16] = 3;
        file[18..20].copy_from_slice(&EM_X86_64.to_le_bytes());
        file[32] = 64;
        file[54] = 56;
        file[56] = 3;
        let bytes = HEADER + 8 + self.frames.len() as u64 + 4;
        let mut segment = |kind: u32, flags: u32, address: u64, bytes: u64| {
            file.extend(kind.to_le_bytes());
            file.extend(flags.to_le_bytes());
            let offset = if kind == PT_LOAD { 0 } else { address };
            for word in [offset, address, address, bytes, bytes, 1] {
                file.extend(word.to_le_bytes());
            }
        };
        segment(PT_LOAD, PF_R, 0, bytes);
        segment(PT_LOAD, PF_R | PF_X, CODE, CODE_BYTES);
        segment(PT_GNU_EH_FRAME, PF_R, HEADER, 8);
        // `.eh_frame` starts four bytes behind the number that says so; there is no table.
        file.extend([1, 0x1b, 0xff, 0xff, 4, 0, 0, 0]);
        file.extend(&self.frames);
        file.extend([0; 4]);
        file
    }
}
