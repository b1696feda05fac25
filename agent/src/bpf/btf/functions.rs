//! The functions of the kernel to which programs are attached, as BTF for aya.
//!
//! aya takes the number of a function's type from BTF that it has parsed, which for the types of a whole kernel takes as
//! long as the verification of a program, and tens of megabytes. Of the numbers only those of some functions matter: in
//! this BTF all other types before them are as short as a type can be and have no names, and there are none behind them.

use aya::{Btf, Endianness};

use super::types::{FORWARD, FUNCTION, HEADER_BYTES, MAGIC, Types};

/// BTF with the wanted functions that there are, each with the number that it has in the kernel's.
pub(super) fn of(types: &Types<'_>) -> Option<Btf> {
    let mut functions: Vec<(u32, &str)> = types.found(FUNCTION).collect();
    functions.sort_unstable();
    let last = functions.last().map_or(0, |(number, _)| *number);
    let mut words = Vec::with_capacity(3 * last as usize);
    let mut names = vec![0];
    let mut functions = functions.into_iter().peekable();
    for number in 1..=last {
        let function = functions.next_if(|(found, _)| *found == number);
        let (name, kind) = match function {
            Some((_, name)) => {
                let at = u32::try_from(names.len()).ok()?;
                names.extend(name.bytes().chain([0]));
                (at, FUNCTION)
            }
            None => (0, FORWARD),
        };
        words.extend([name, kind << 24, 0]);
    }
    let type_bytes = u32::try_from(size_of_val(&*words)).ok()?;
    let name_bytes = u32::try_from(names.len()).ok()?;
    let header = [MAGIC, HEADER_BYTES, 0, type_bytes, type_bytes, name_bytes];
    let words = header.into_iter().chain(words);
    let mut bytes: Vec<u8> = words.flat_map(u32::to_ne_bytes).collect();
    bytes.extend(names);
    Btf::parse(&bytes, Endianness::default()).ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use aya::Btf;
    use aya_obj::btf::BtfKind;

    use super::{
        super::{error::VMLINUX, types::Types},
        FUNCTION, of,
    };

    const NAMES: [&str; 3] = ["bpf_iter_task", "do_exit", "there_is_no_such_function"];

    #[test]
    fn functions_have_the_numbers_of_the_kernel() {
        let bytes = fs::read(VMLINUX).unwrap();
        let types = Types::read(&bytes, &NAMES.map(|name| (FUNCTION, name))).unwrap();
        let whole = Btf::from_sys_fs().unwrap();
        let functions = of(&types).unwrap();
        for name in NAMES {
            let [expected, found] =
                [&whole, &functions].map(|btf| btf.id_by_type_name_kind(name, BtfKind::Func).ok());
            assert_eq!(found, expected, "{name}");
            assert_eq!(found.is_some(), !name.contains("no_such"), "{name}");
        }
    }

    #[test]
    fn without_functions_there_are_no_types() {
        let bytes = fs::read(VMLINUX).unwrap();
        let types = Types::read(&bytes, &[]).unwrap();
        let functions = of(&types).unwrap();
        let found = functions.id_by_type_name_kind(NAMES[0], BtfKind::Func);
        assert!(found.is_err());
    }
}
