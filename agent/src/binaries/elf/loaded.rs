//! Loaded bytes by address, where the size is not known.

use goblin::elf::program_header::PT_GNU_EH_FRAME;

use super::{error::Error, file::Elf, source::Source};

impl<S: Source> Elf<S> {
    /// The address of the search table of the call-frame information (`.eh_frame_hdr`), before the
    /// load bias is added.
    #[must_use]
    pub fn frame_header(&self) -> Option<u64> {
        self.headers
            .iter()
            .find(|header| header.p_type == PT_GNU_EH_FRAME)
            .map(|header| header.p_vaddr)
    }

    /// The bytes from `address` to the end of its segment, at most `limit`; none where no segment
    /// contains the address.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn loaded_from(&self, address: u64, limit: u64) -> Result<Vec<u8>, Error> {
        match self.segments.rest(address) {
            Some((offset, bytes)) => {
                let bytes = bytes.min(limit);
                self.bytes_at("segment", offset, bytes, bytes)
            }
            None => Ok(Vec::new()),
        }
    }
}
