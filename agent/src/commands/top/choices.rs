//! What a person can choose: a table, its order, what is measured, and which frames are shown.

/// A table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum View {
    /// A row for each function.
    #[default]
    Functions,
    /// A row for each line of a function.
    Lines,
    /// A row for each thread.
    Threads,
    /// A row for each process.
    Processes,
}

/// The column by which a table is sorted, the highest value first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// Time in the function itself.
    #[default]
    Own,
    /// Time in the function and all that it calls.
    Total,
    /// Time in the function itself since sampling started.
    SinceStart,
}

/// What a table is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Event {
    /// CPU time.
    #[default]
    Cpu,
    /// Elapsed time of all threads, whether they run or wait.
    Wall,
}

/// Which frames of a stack are shown. Time in a frame that is not shown is that of its caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// Those of Python.
    Python,
    /// Native and kernel frames too, without those of the interpreter itself.
    #[default]
    Native,
    /// All.
    All,
}

impl Detail {
    /// How many there are.
    pub(super) const COUNT: usize = Self::All as usize + 1;

    /// Every one.
    pub(super) const EACH: [Self; Self::COUNT] = [Self::Python, Self::Native, Self::All];
}

impl View {
    /// Every table, and its name.
    pub const NAMES: [(Self, &'static str); 4] = [
        (Self::Functions, "functions"),
        (Self::Lines, "lines"),
        (Self::Threads, "threads"),
        (Self::Processes, "processes"),
    ];
}

impl Sort {
    /// Every order, and its name.
    pub const NAMES: [(Self, &'static str); 3] = [
        (Self::Own, "self"),
        (Self::Total, "total"),
        (Self::SinceStart, "since-start"),
    ];
}

impl Event {
    /// Every event, and its name.
    pub const NAMES: [(Self, &'static str); 2] = [(Self::Cpu, "cpu"), (Self::Wall, "wall")];
}
