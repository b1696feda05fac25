//! Call-frame information as printed by `readelf` of GNU binutils.

use std::{
    collections::{BTreeMap, HashMap},
    fs::File,
    ops::Range,
};

use xtask::tools;

/// A function, or a part of one.
#[derive(Debug)]
pub(crate) struct Function {
    /// Its addresses.
    pub(crate) range: Range<u64>,
    /// Whether it is a signal trampoline.
    pub(crate) is_signal_trampoline: bool,
    /// Its rows, the first at its start.
    pub(crate) rows: Vec<Row>,
}

/// A row of a function: the cells by the names of registers, and of `CFA`.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// Its first address.
    pub(crate) address: u64,
    /// `rsp+8`, `c-8`, `exp`, `u`, …
    pub(crate) cells: HashMap<String, String>,
}

impl Row {
    /// The cell of a column; `u` if there is none.
    pub(crate) fn cell(&self, name: &str) -> &str {
        self.cells.get(name).map_or("u", String::as_str)
    }
}

/// The functions in `.eh_frame`, in its order.
pub(crate) fn functions(file: &File) -> Vec<Function> {
    /// A common information entry.
    #[derive(Default)]
    struct Common {
        is_signal_trampoline: bool,
        row: Option<Row>,
    }
    let mut commons: HashMap<String, Common> = HashMap::new();
    let mut common = None;
    let mut columns: Vec<String> = Vec::new();
    let mut functions: Vec<Function> = Vec::new();
    for line in lines(file, "frames-interp") {
        let words: Vec<&str> = line
            .split_whitespace()
            // The name of a register follows its number.
            .filter(|word| !word.starts_with('('))
            .collect();
        match &words[..] {
            [offset, _, _, "CIE", augmentation, ..] => {
                let is_signal_trampoline = augmentation.contains('S');
                let new = Common {
                    is_signal_trampoline,
                    row: None,
                };
                commons.insert((*offset).to_owned(), new);
                common = Some((*offset).to_owned());
            }
            [_, _, _, "FDE", rest @ ..] => {
                let value = |name| {
                    rest.iter()
                        .find_map(|word| word.strip_prefix(name))
                        .unwrap()
                };
                let (start, end) = value("pc=").split_once("..").unwrap();
                let start = number(start);
                let common_to = &commons[value("cie=")];
                let first = common_to.row.clone();
                functions.push(Function {
                    range: start..number(end),
                    is_signal_trampoline: common_to.is_signal_trampoline,
                    // It has no row of its own if all rules are those of the common entry.
                    rows: first
                        .map(|row| Row {
                            address: start,
                            ..row
                        })
                        .into_iter()
                        .collect(),
                });
                common = None;
            }
            ["LOC", names @ ..] => {
                columns = names.iter().map(|name| (*name).to_owned()).collect();
                if common.is_none() {
                    functions.last_mut().unwrap().rows.clear();
                }
            }
            [address, cells @ ..] if address.len() == 16 && cells.len() == columns.len() => {
                let cells = columns
                    .iter()
                    .cloned()
                    .zip(cells.iter().map(ToString::to_string));
                let row = Row {
                    address: number(address),
                    cells: cells.collect(),
                };
                match &common {
                    Some(offset) => commons.get_mut(offset).unwrap().row = Some(row),
                    None => functions.last_mut().unwrap().rows.push(row),
                }
            }
            _ => {}
        }
    }
    functions
}

/// The expressions for the CFA, by their first address.
pub(crate) fn expressions(file: &File) -> BTreeMap<u64, String> {
    let mut expressions = BTreeMap::new();
    let mut address = 0;
    for line in lines(file, "frames") {
        if let Some((_, pc)) = line.split_once(" pc=") {
            address = number(pc.split_once("..").unwrap().0);
        } else if let Some((_, to)) = line.split_once(" to ") {
            address = number(to);
        } else if let Some((_, expression)) = line.split_once("DW_CFA_def_cfa_expression (") {
            expressions.insert(address, expression.trim_end_matches(')').to_owned());
        }
    }
    expressions
}

fn lines(file: &File, what: &str) -> Vec<String> {
    let output = tools::READELF
        .command()
        .args(["--wide", &format!("--debug-dump={what}"), "/dev/stdin"])
        .stdin(file.try_clone().unwrap())
        .output()
        .unwrap();
    // It fails if a file of debugging information is missing, which is not needed.
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(ToOwned::to_owned).collect()
}

fn number(text: &str) -> u64 {
    u64::from_str_radix(text, 16).unwrap()
}
