//! The types of values in a file of another tool: which of them is read, and what is counted with it.
//!
//! A profile of the model has a number of samples and one value of each. A file may have more types, as that of
//! a heap: `alloc_objects`, `alloc_space`, `inuse_objects`, `inuse_space`. Then the value is of the type that is
//! chosen, else of the file's default, else of the last, as in `go tool pprof`; and the number is of the nearest
//! type before it that counts something.

use super::error::{PprofReadError, malformed};
use crate::profile::{ForeignTypes, Kind, Unit, foreign};

/// Most types of a file.
pub(super) const MAX_TYPES: usize = 64;

/// Name and unit.
pub(super) type TypeName<'a> = (&'a str, &'a str);

/// Which values of a sample are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Columns {
    /// How many there are.
    pub(super) types: usize,
    /// How many samples it stands for.
    pub(super) counted: Counted,
    /// Index of what they measured.
    pub(super) value: usize,
    /// Factor to the unit of the kind.
    pub(super) factor: u64,
}

/// How many samples a message stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    /// A value, by its index.
    By(usize),
    /// What they measured is their number.
    AsValue,
    /// What they measured, in such periods.
    Periods(u64),
    /// Not known; it counts once.
    Once,
}

/// The types that a file has.
#[derive(Debug)]
pub(super) struct FileTypes<'a> {
    /// Of the values of a sample, in their order.
    pub(super) values: Vec<TypeName<'a>>,
    /// Of the period; empty without one.
    pub(super) period: TypeName<'a>,
    /// The name of the one that is shown by default; empty without one.
    pub(super) default: &'a str,
}

impl FileTypes<'_> {
    /// The type with this name, else the default.
    pub(super) fn chosen(&self, wanted: Option<&str>) -> Result<usize, PprofReadError> {
        let find = |name: &str| self.values.iter().rposition(|of| of.0 == name);
        if let Some(wanted) = wanted {
            return find(wanted).ok_or_else(|| PprofReadError::NoType {
                wanted: wanted.to_owned(),
                known: self.names(),
            });
        }
        let last = self.values.len().checked_sub(1);
        find(self.default).or(last).ok_or(PprofReadError::Foreign)
    }

    /// The names of all.
    pub(super) fn names(&self) -> Vec<String> {
        let names = self.values.iter();
        names.map(|(name, _)| (*name).to_owned()).collect()
    }

    /// The kind of the values of a type, and how they are read.
    pub(super) fn kind_of(
        &self,
        index: usize,
        period: u64,
    ) -> Result<(&'static Kind, Columns), PprofReadError> {
        let value @ (name, _) = self.values[index];
        let (unit, factor, unit_name) = unit(value.1);
        let before = self.values[..index].iter();
        let companion = before
            .rev()
            .position(|of| self::unit(of.1).0 == Unit::Events)
            .map(|distance| index - 1 - distance)
            .filter(|_| unit != Unit::Events);
        let (count, counted) = match companion {
            Some(index) => (self.values[index], Counted::By(index)),
            None if unit == Unit::Events => (count_beside(name), Counted::AsValue),
            // As many periods as the value has.
            None if self.period == value && period != 0 => (
                count_beside(name),
                Counted::Periods(period.saturating_mul(factor)),
            ),
            None => (count_beside(name), Counted::Once),
        };
        let kind = foreign(&ForeignTypes {
            count,
            value: (name, unit_name),
            period: self.period,
            unit,
        });
        let columns = Columns {
            types: self.values.len(),
            counted,
            value: index,
            factor,
        };
        Ok((kind.ok_or_else(|| malformed("types"))?, columns))
    }
}

/// What counts samples where the file does not say, beside a type with this name.
fn count_beside(name: &str) -> TypeName<'static> {
    if name == "samples" {
        ("records", "count")
    } else {
        ("samples", "count")
    }
}

/// The unit of the model, the factor to it, and its name.
fn unit(name: &str) -> (Unit, u64, &str) {
    let of = |unit: Unit, factor| (unit, factor, unit.name());
    match name {
        "nanoseconds" | "ns" => of(Unit::Nanoseconds, 1),
        "microseconds" | "us" | "µs" => of(Unit::Nanoseconds, 1_000),
        "milliseconds" | "ms" => of(Unit::Nanoseconds, 1_000_000),
        "seconds" | "s" => of(Unit::Nanoseconds, 1_000_000_000),
        "bytes" | "byte" | "b" | "B" => of(Unit::Bytes, 1),
        "kilobytes" | "kb" | "KB" | "kB" => of(Unit::Bytes, 1 << 10),
        "megabytes" | "mb" | "MB" => of(Unit::Bytes, 1 << 20),
        other => (Unit::Events, 1, other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heap() -> FileTypes<'static> {
        FileTypes {
            values: vec![
                ("alloc_objects", "count"),
                ("alloc_space", "bytes"),
                ("inuse_objects", "count"),
                ("inuse_space", "bytes"),
            ],
            period: ("space", "bytes"),
            default: "inuse_space",
        }
    }

    #[test]
    fn the_type_is_the_chosen_one_else_the_default_else_the_last() {
        let mut types = heap();
        assert_eq!(types.chosen(None).unwrap(), 3);
        assert_eq!(types.chosen(Some("alloc_space")).unwrap(), 1);
        types.default = "alloc_objects";
        assert_eq!(types.chosen(None).unwrap(), 0);
        types.default = "";
        assert_eq!(types.chosen(None).unwrap(), 3);
        let error = types.chosen(Some("cpu")).unwrap_err().to_string();
        assert!(error.ends_with("alloc_objects, alloc_space, inuse_objects, inuse_space"));
        types.values.clear();
        assert!(types.chosen(None).is_err());
    }

    #[test]
    fn what_is_counted_stands_before_what_is_measured() {
        let types = heap();
        for (index, count, counted) in [
            (1, "alloc_objects", Counted::By(0)),
            (3, "inuse_objects", Counted::By(2)),
            (2, "samples", Counted::AsValue),
        ] {
            let (kind, columns) = types.kind_of(index, 524_288).unwrap();
            assert_eq!(kind.names.sample_types[0].name, count);
            assert_eq!(columns.counted, counted);
            assert_eq!(columns.value, index);
        }
    }

    #[test]
    fn times_are_nanoseconds_and_are_counted_by_the_period() {
        let mut types = FileTypes {
            values: vec![("wall", "milliseconds")],
            period: ("wall", "milliseconds"),
            default: "",
        };
        let (kind, columns) = types.kind_of(0, 10).unwrap();
        assert_eq!((kind.unit, columns.factor), (Unit::Nanoseconds, 1_000_000));
        assert_eq!(columns.counted, Counted::Periods(10_000_000));
        types.period = ("", "");
        assert_eq!(types.kind_of(0, 10).unwrap().1.counted, Counted::Once);
        types.values = vec![("samples", "count")];
        let (kind, _) = types.kind_of(0, 0).unwrap();
        assert_eq!(kind.names.sample_types[0].name, "records");
    }
}
