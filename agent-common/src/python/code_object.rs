//! Reading code objects: their identity, and the record of their names and line table.

use crate::{
    hash::Hash,
    layout::{ABSENT, Layout},
    limits::{LINE_TABLE_PIECE_BYTES, TEXT_BYTES},
    maps::CodeIdentity,
    memory::{Fault, UserAddr, UserMemory},
    record::{CodeObjectHead, Header, LineTableFormat, RecordKind, Text},
    scratch::{SLOT, Scratch},
    volatile::masked,
};

use super::text::locate_text;

/// Reads the identity of the code object at `code`; the slot is overwritten.
///
/// # Errors
///
/// [`Fault`] when it cannot be read.
#[inline(always)]
pub fn read_identity<M: UserMemory>(
    memory: &M,
    scratch: &mut Scratch,
    layout: &Layout,
    code: UserAddr,
) -> Result<CodeIdentity, Fault> {
    let fields = &layout.code;
    scratch.load_slot(memory, code, fields.bytes)?;
    let at = |offset: u16| SLOT + offset as usize;
    let first_traceable_bytes = if fields.first_traceable == ABSENT {
        0
    } else {
        scratch.half(at(fields.first_traceable)).wrapping_mul(2)
    };
    let name = scratch.word(at(fields.name));
    Ok(CodeIdentity {
        name,
        name_hash: memory.word(UserAddr(name).field(layout.text.hash))?,
        file: scratch.word(at(fields.file)),
        line_table: scratch.word(at(fields.line_table)),
        first_line: scratch.half(at(fields.first_line)).cast_signed(),
        first_traceable_bytes,
    })
}

/// Words before a text or a line table, at most: a mask, as the bound that the verifier needs.
const MOST_WORDS_BEFORE: usize = 511;

/// Mask of the bytes of a piece of a line table, as the bound that the verifier needs.
const PIECE_MASK: u32 = 2 * LINE_TABLE_PIECE_BYTES as u32 - 1;

/// Words of a record that are hashed at once.
pub const HASHED_WORDS: u32 = 64;

/// Most calls of [`CodeObjectRecord::hash_words`] that a record takes.
pub const HASH_STEPS: u32 = (PAYLOAD_WORDS as u32).div_ceil(HASHED_WORDS);

/// Room for all that the masks allow.
const PAYLOAD_WORDS: usize = MOST_WORDS_BEFORE + (PIECE_MASK as usize).div_ceil(8) + 1;

const _: () = assert!(2 * TEXT_BYTES / 8 <= MOST_WORDS_BEFORE);
const _: () = assert!(2 * TEXT_BYTES <= LINE_TABLE_PIECE_BYTES);

const NO_TEXT: Text = Text {
    kind: 0,
    truncated: 0,
    bytes: 0,
};

/// The record of a code object, or of a piece of its line table.
#[repr(C)]
#[derive(Debug)]
pub struct CodeObjectRecord {
    /// The record's head.
    pub head: CodeObjectHead,
    payload: [u64; PAYLOAD_WORDS],
}

/// Maximum size of a record.
pub const CODE_OBJECT_RECORD_BYTES: usize =
    size_of::<CodeObjectHead>() + 2 * TEXT_BYTES + LINE_TABLE_PIECE_BYTES;

impl CodeObjectRecord {
    /// An empty record.
    #[must_use]
    #[expect(
        clippy::large_stack_arrays,
        reason = "a BPF program has it in a map, the agent has room"
    )]
    pub const fn new() -> Self {
        Self {
            head: CodeObjectHead {
                header: Header {
                    kind: RecordKind::CODE_OBJECT,
                    reserved: 0,
                    bytes: 0,
                },
                symbol: 0,
                first_line: 0,
                line_table_bytes: 0,
                line_table_start: 0,
                name: NO_TEXT,
                file: NO_TEXT,
                line_table_format: LineTableFormat(0),
                reserved: 0,
            },
            payload: [0; PAYLOAD_WORDS],
        }
    }

    /// Reads the names and the start of the line table of the code object with this identity. The
    /// slot is overwritten.
    ///
    /// # Errors
    ///
    /// [`Fault`] when some part of it cannot be read: it is then read at a later sample.
    #[inline(always)]
    pub fn read<M: UserMemory>(
        &mut self,
        memory: &M,
        scratch: &mut Scratch,
        layout: &Layout,
        identity: &CodeIdentity,
    ) -> Result<(), Fault> {
        let name = self.read_text(memory, scratch, layout, UserAddr(identity.name), 0)?;
        let file_at = name.words();
        let file = self.read_text(memory, scratch, layout, UserAddr(identity.file), file_at)?;
        let table_at = file_at + file.words();
        let (table_bytes, piece_bytes) =
            self.read_line_table(memory, layout, UserAddr(identity.line_table), table_at)?;
        let bytes = (size_of::<CodeObjectHead>() + table_at * 8) as u32 + piece_bytes;
        self.head = CodeObjectHead {
            header: Header {
                kind: RecordKind::CODE_OBJECT,
                reserved: 0,
                bytes,
            },
            symbol: 0,
            first_line: identity.first_line,
            line_table_bytes: table_bytes,
            line_table_start: 0,
            name,
            file,
            line_table_format: layout.code.line_table_format,
            reserved: 0,
        };
        Ok(())
    }

    /// Hashes what was read: that is the code object's symbol.
    pub fn finish_record(&mut self, seed: u64) -> u64 {
        let mut hash = self.begin_hash(seed);
        let mut first = 0;
        while first < PAYLOAD_WORDS {
            hash = self.hash_words(hash, first as u32);
            first += HASHED_WORDS as usize;
        }
        self.set_symbol(hash)
    }

    /// Starts the hash of what was read: that of the head.
    #[inline(always)]
    #[must_use]
    pub fn begin_hash(&self, seed: u64) -> Hash {
        let head = &self.head;
        Hash::new(seed)
            .word(
                (u64::from(head.first_line.cast_unsigned()) << 32)
                    | u64::from(head.line_table_bytes),
            )
            .word((u64::from(head.name.descriptor()) << 32) | u64::from(head.file.descriptor()))
            .word(u64::from(head.line_table_format.0))
    }

    /// Continues the hash with [`HASHED_WORDS`] words of the payload, or as many as there are, from
    /// the word `first` on.
    #[inline(always)]
    #[must_use]
    pub fn hash_words(&self, hash: Hash, first: u32) -> Hash {
        let words = self.payload_words();
        let mut hash = hash;
        let mut nth = 0;
        while nth < HASHED_WORDS && first.wrapping_add(nth) < words {
            // Hidden from the compiler, which would drop the check that the verifier needs.
            let index = masked(first.wrapping_add(nth), u32::MAX) as usize;
            if index >= PAYLOAD_WORDS {
                break;
            }
            hash = hash.word(self.payload[index]);
            nth += 1;
        }
        hash
    }

    /// Words of the payload.
    #[inline(always)]
    #[must_use]
    pub fn payload_words(&self) -> u32 {
        let bytes = self.head.header.bytes as usize - size_of::<CodeObjectHead>();
        let words = bytes.div_ceil(8);
        if words > PAYLOAD_WORDS {
            PAYLOAD_WORDS as u32
        } else {
            words as u32
        }
    }

    /// Sets the symbol to a finished hash, and returns it.
    #[inline(always)]
    pub fn set_symbol(&mut self, hash: Hash) -> u64 {
        let symbol = hash.finish();
        self.head.symbol = symbol;
        symbol
    }

    /// Reads the string at `address` to word `at` of the payload, padded with zeros.
    #[inline(always)]
    fn read_text<M: UserMemory>(
        &mut self,
        memory: &M,
        scratch: &mut Scratch,
        layout: &Layout,
        address: UserAddr,
        at: usize,
    ) -> Result<Text, Fault> {
        let (data, text) = locate_text(memory, scratch, &layout.text, address)?;
        self.fill(memory, data, u32::from(text.bytes), at)?;
        Ok(text)
    }

    /// Reads the line table at `address` to word `at` of the payload, as far as one piece goes;
    /// returns the bytes of the table and of the piece.
    #[inline(always)]
    fn read_line_table<M: UserMemory>(
        &mut self,
        memory: &M,
        layout: &Layout,
        address: UserAddr,
        at: usize,
    ) -> Result<(u32, u32), Fault> {
        let size = memory.word(address.field(layout.text.bytes_size))?;
        let total = u32::try_from(size).map_err(|_| Fault)?;
        let piece = if total > LINE_TABLE_PIECE_BYTES as u32 {
            LINE_TABLE_PIECE_BYTES as u32
        } else {
            total
        };
        let data = address.field(layout.text.bytes_data);
        self.fill(memory, data, piece, at)?;
        Ok((total, piece))
    }

    /// Copies `bytes` bytes, at most a piece of a line table, to word `at` of the payload, and
    /// pads them with zeros.
    #[inline(always)]
    fn fill<M: UserMemory>(
        &mut self,
        memory: &M,
        from: UserAddr,
        bytes: u32,
        at: usize,
    ) -> Result<(), Fault> {
        let at = masked(at as u32, MOST_WORDS_BEFORE as u32) as usize;
        let last = masked(bytes / 8, PIECE_MASK / 8) as usize;
        self.payload[at + last] = 0;
        let bytes = masked(bytes, PIECE_MASK);
        // SAFETY: the payload has room for all that the masks allow.
        unsafe {
            let into = self.payload.as_mut_ptr().add(at);
            memory.copy(from, into.cast(), bytes)
        }
    }

    /// Makes the head of the record of the piece of the line table that starts at `start`, of
    /// the code object in this record, and copies the piece, whose bytes are at `from`.
    /// The names and the piece before are overwritten.
    ///
    /// Returns the bytes of the record, 0 when the table has no such piece.
    ///
    /// # Errors
    ///
    /// [`Fault`] when the piece cannot be read.
    #[inline(always)]
    pub fn read_line_table_piece<M: UserMemory>(
        &mut self,
        memory: &M,
        from: UserAddr,
        start: u32,
    ) -> Result<u32, Fault> {
        let table_bytes = self.head.line_table_bytes;
        if start >= table_bytes {
            return Ok(0);
        }
        let rest = table_bytes - start;
        let piece = if rest > LINE_TABLE_PIECE_BYTES as u32 {
            LINE_TABLE_PIECE_BYTES as u32
        } else {
            rest
        };
        let bytes = size_of::<CodeObjectHead>() as u32 + piece;
        self.head.header = Header {
            kind: RecordKind::LINE_TABLE_PIECE,
            reserved: 0,
            bytes,
        };
        self.head.name = Text::default();
        self.head.file = Text::default();
        self.head.line_table_start = start;
        self.fill(memory, from, piece, 0)?;
        Ok(bytes)
    }

    /// The bytes of the record that was made last.
    #[must_use]
    pub fn record(&self) -> &[u8] {
        let bytes = size_of::<Self>().min(self.head.header.bytes as usize);
        // SAFETY: a record consists of integers without padding between them, and the
        // record is no longer than all of it.
        unsafe { core::slice::from_raw_parts((&raw const *self).cast(), bytes) }
    }
}

impl Default for CodeObjectRecord {
    fn default() -> Self {
        Self::new()
    }
}
