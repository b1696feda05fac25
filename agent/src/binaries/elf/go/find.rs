//! Finding the table in a file.

use super::{
    module_data::ModuleData,
    table::{GoTable, is_header},
};
use crate::binaries::elf::{
    error::Error,
    file::Elf,
    pages::Pages,
    source::{Shared, Source},
};

/// Names of its section; the second in position-independent executables.
const SECTIONS: [&str; 2] = [".gopclntab", ".data.rel.ro.gopclntab"];

/// Sections of every Go program, also where another linker has merged the sections above with others.
const MARKS: [&str; 2] = [".note.go.buildid", ".go.buildinfo"];

/// Most bytes of the table; in a program of 100 MB it has 30 MB.
const MAX_BYTES: u64 = 1 << 30;

/// Most bytes of data that are searched for the table.
const MAX_SEARCHED: u64 = 256 << 20;

impl<S: Source> Elf<S> {
    /// The table of functions, if the Go linker has written one.
    ///
    /// # Errors
    ///
    /// When it cannot be read or is too large.
    pub fn go_table(&self) -> Result<Option<GoTable<&S>>, Error> {
        GoTable::find(self, || &self.source)
    }

    /// Bytes of the table; 0 where that is not known in advance.
    #[must_use]
    pub fn go_table_bytes(&self) -> u64 {
        let sections = SECTIONS.into_iter().filter_map(|name| self.section(name));
        sections.map(|section| section.bytes).max().unwrap_or(0)
    }
}

impl Elf<Shared> {
    /// As [`Self::go_table`], with files, lines and inlined functions, and a source of its own.
    ///
    /// # Errors
    ///
    /// When it cannot be read or is too large.
    pub fn go_lines(&self) -> Result<Option<GoTable<Shared>>, Error> {
        let Some(mut table) = GoTable::find(self, || self.source())? else {
            return Ok(None);
        };
        if table.inline_trees.is_none()
            && let Some(module) = ModuleData::find(self, &table, table.address)?
        {
            table.inline_trees = module.inline_trees;
        }
        Ok(Some(table))
    }
}

impl<T: Source> GoTable<T> {
    fn find<S: Source>(elf: &Elf<S>, source: impl Fn() -> T) -> Result<Option<Self>, Error> {
        let place = SECTIONS.into_iter().find_map(|name| {
            let section = elf.section(name)?;
            Some((name, section.address, section.file_offset?, section.bytes))
        });
        if let Some((what, address, offset, bytes)) = place {
            if bytes > MAX_BYTES {
                let limit = MAX_BYTES;
                return Err(Error::TooLarge { what, bytes, limit });
            }
            return Self::read(elf, address, Pages::new(source(), offset, bytes));
        }
        let is_marked = MARKS.into_iter().any(|name| elf.section(name).is_some());
        if elf.has_sections() && !is_marked {
            return Ok(None);
        }
        for address in elf.find_outside_code(MAX_SEARCHED, is_header)? {
            let Some((offset, bytes)) = elf.segments.rest(address) else {
                continue;
            };
            let pages = Pages::new(source(), offset, bytes.min(MAX_BYTES));
            if let Some(table) = Self::read(elf, address, pages)? {
                return Ok(Some(table));
            }
        }
        Ok(None)
    }

    /// Reads the table at an address; [`None`] where it is malformed.
    fn read<S: Source>(elf: &Elf<S>, address: u64, pages: Pages<T>) -> Result<Option<Self>, Error> {
        let Some(mut table) = Self::parse(address, pages) else {
            return Ok(None);
        };
        if table.format.has_distances && table.text == 0 {
            let Some(module) = ModuleData::find(elf, &table, address)? else {
                return Ok(None);
            };
            table.text = module.text;
            table.inline_trees = module.inline_trees;
        }
        Ok(Some(table))
    }
}
