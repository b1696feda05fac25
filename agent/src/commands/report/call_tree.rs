//! The calls of a profile as a tree, of which only the largest part is built.
//!
//! Stacks are sorted by their functions, root first, so that a node is a range of them and its children are
//! ranges within it. Nodes are opened largest first until there are as many as are shown, so that a limit leaves
//! out what is smallest, wherever it is.
//!
//! Invariants: the values of a node are its own, those of its children, and those of what is left out below it;
//! memory grows with the stacks and the shown nodes, not with all nodes.

use std::{cmp::Reverse, collections::BinaryHeap};

use crate::{
    commands::summary::{Named, NamedFunctions},
    profile::Profile,
};

/// Most functions between the root and a node.
const MAX_DEPTH: usize = 256;

/// What is shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Most nodes.
    pub(super) nodes: usize,
    /// Least value of a node.
    pub(super) value: u64,
    /// Most steps to the right.
    pub(super) indent: usize,
}

/// With what stacks begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Roots {
    /// With the function that no other has called.
    Functions,
    /// With their thread.
    Threads,
}

/// A tree of calls.
#[derive(Debug)]
pub(super) struct CallTree {
    functions: Vec<Named>,
    nodes: Vec<Node>,
    /// The callers that no other has called, the largest first, as indices of nodes.
    roots: Vec<usize>,
    /// What is left out beside them.
    folded: Folded,
}

/// A function with all that has called it.
#[derive(Debug)]
struct Node {
    function: usize,
    /// How far to the right it is.
    indent: usize,
    /// Whether it has all of the value of its caller.
    continues: bool,
    own: u64,
    total: u64,
    /// The largest first, as indices of nodes.
    children: Vec<usize>,
    folded: Folded,
}

/// Children that are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Folded {
    pub(super) functions: u64,
    pub(super) value: u64,
}

impl Folded {
    fn add(&mut self, value: u64) {
        self.functions += 1;
        self.value = self.value.saturating_add(value);
    }
}

/// A row of a tree.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Row<'a> {
    /// A function.
    Function {
        function: &'a Named,
        indent: usize,
        /// Whether it has all of the value of the row above, which has called it.
        continues: bool,
        own: u64,
        total: u64,
    },
    /// What is left out.
    Folded { indent: usize, folded: Folded },
}

/// A node that is not opened yet: the largest is the greatest.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    total: u64,
    /// Of equals the first one.
    order: Reverse<usize>,
    range: StackRange,
    /// Functions up to it, itself included.
    depth: usize,
    parent: Option<usize>,
    indent: usize,
    continues: bool,
}

/// A range of stacks, which can be compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct StackRange {
    start: usize,
    end: usize,
}

/// Distinct stacks of functions, root first, with the sum of all values before each.
struct Stacks {
    stacks: Vec<Vec<usize>>,
    sums: Vec<u64>,
}

impl Stacks {
    /// Those of a profile; where they begin with their threads, these are the indices of all of them.
    fn of(profile: &Profile, named: &NamedFunctions, threads: Option<&[usize]>) -> Self {
        let mut stacks: Vec<(Vec<usize>, u64)> = Vec::with_capacity(profile.samples.len());
        for sample in &profile.samples {
            let thread = threads.map(|threads| threads[sample.thread.0 as usize]);
            let stack = thread.into_iter().chain(named.stack(profile, sample).rev());
            stacks.push((stack.take(MAX_DEPTH).collect(), sample.value));
        }
        stacks.sort_unstable();
        let mut sums = vec![0_u64];
        for (_, value) in &stacks {
            let sum = sums.last().copied().unwrap_or(0);
            sums.push(sum.saturating_add(*value));
        }
        Self {
            stacks: stacks.into_iter().map(|(stack, _)| stack).collect(),
            sums,
        }
    }

    fn all(&self) -> StackRange {
        StackRange {
            start: 0,
            end: self.stacks.len(),
        }
    }

    fn value(&self, range: StackRange) -> u64 {
        self.sums[range.end] - self.sums[range.start]
    }

    /// The part of a range whose stacks end at a depth, which is the first, and the ranges with one function there.
    fn split(&self, range: StackRange, depth: usize) -> (StackRange, Vec<StackRange>) {
        let function = |index: usize| self.stacks[index].get(depth);
        let mut parts = Vec::new();
        let mut start = range.start;
        while start < range.end {
            let first = function(start);
            let rest = &self.stacks[start..range.end];
            let length = rest.partition_point(|stack| stack.get(depth) == first);
            let end = start + length.max(1);
            parts.push(StackRange { start, end });
            start = end;
        }
        let ends = parts
            .first()
            .copied()
            .filter(|part| function(part.start).is_none());
        if ends.is_some() {
            parts.remove(0);
        }
        let none = StackRange {
            start: range.start,
            end: range.start,
        };
        (ends.unwrap_or(none), parts)
    }
}

impl CallTree {
    pub(super) fn new(profile: &Profile, roots: Roots, limits: Limits) -> Self {
        let mut named = NamedFunctions::of(profile);
        let threads = (roots == Roots::Threads).then(|| named.add_threads(profile));
        let stacks = Stacks::of(profile, &named, threads.as_deref());
        let mut builder = Builder {
            tree: Self {
                functions: named.functions,
                nodes: Vec::new(),
                roots: Vec::new(),
                folded: Folded::default(),
            },
            stacks: &stacks,
            limits,
            candidates: BinaryHeap::new(),
            order: 0,
        };
        builder.add_children(None, stacks.all(), 0);
        while let Some(candidate) = builder.candidates.pop() {
            builder.open(&candidate);
        }
        builder.tree
    }

    /// The rows, each below what has called it. What is left out is a row if it has at least this value.
    pub(super) fn rows(&self, folded_value: u64) -> Vec<Row<'_>> {
        let mut rows = Vec::new();
        let is_row = |folded: Folded| folded.functions != 0 && folded.value >= folded_value.max(1);
        // Nodes to be written, or what is left out, the next one last.
        let mut next = Vec::new();
        if is_row(self.folded) {
            next.push(Err((0, self.folded)));
        }
        next.extend(self.roots.iter().rev().map(|&root| Ok(root)));
        while let Some(item) = next.pop() {
            let node = match item {
                Ok(index) => &self.nodes[index],
                Err((indent, folded)) => {
                    rows.push(Row::Folded { indent, folded });
                    continue;
                }
            };
            rows.push(Row::Function {
                function: &self.functions[node.function],
                indent: node.indent,
                continues: node.continues,
                own: node.own,
                total: node.total,
            });
            if is_row(node.folded) {
                next.push(Err((node.indent + 1, node.folded)));
            }
            next.extend(node.children.iter().rev().map(|&child| Ok(child)));
        }
        rows
    }
}

struct Builder<'a> {
    tree: CallTree,
    stacks: &'a Stacks,
    limits: Limits,
    candidates: BinaryHeap<Candidate>,
    order: usize,
}

impl Builder<'_> {
    /// Makes a candidate a node, unless there are enough.
    fn open(&mut self, candidate: &Candidate) {
        if self.tree.nodes.len() >= self.limits.nodes {
            self.folded(candidate.parent).add(candidate.total);
            return;
        }
        let index = self.tree.nodes.len();
        self.tree.nodes.push(Node {
            function: self.stacks.stacks[candidate.range.start][candidate.depth - 1],
            indent: candidate.indent,
            continues: candidate.continues,
            own: 0,
            total: candidate.total,
            children: Vec::new(),
            folded: Folded::default(),
        });
        match candidate.parent {
            Some(parent) => self.tree.nodes[parent].children.push(index),
            None => self.tree.roots.push(index),
        }
        self.add_children(Some(index), candidate.range, candidate.depth);
    }

    /// Adds the functions that are called at a depth: candidates, or left out.
    fn add_children(&mut self, parent: Option<usize>, range: StackRange, depth: usize) {
        let (own, children) = self.stacks.split(range, depth);
        let (indent, total) = match parent {
            Some(parent) => {
                let node = &mut self.tree.nodes[parent];
                node.own = self.stacks.value(own);
                (node.indent + 1, Some(node.total))
            }
            None => (0, None),
        };
        for child in children {
            let value = self.stacks.value(child);
            let continues = total == Some(value);
            let indent = if continues { indent - 1 } else { indent };
            if value < self.limits.value.max(1) || indent > self.limits.indent {
                self.folded(parent).add(value);
                continue;
            }
            self.order += 1;
            self.candidates.push(Candidate {
                total: value,
                order: Reverse(self.order),
                range: child,
                depth: depth + 1,
                parent,
                indent,
                continues,
            });
        }
    }

    fn folded(&mut self, parent: Option<usize>) -> &mut Folded {
        match parent {
            Some(parent) => &mut self.tree.nodes[parent].folded,
            None => &mut self.tree.folded,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::fixtures::{PERIOD_NS, example_profile};

    const ALL: Limits = Limits {
        nodes: 1_000,
        value: 0,
        indent: 100,
    };

    /// Rows as text, with values in samples.
    fn rows(profile: &Profile, limits: Limits) -> Vec<String> {
        let tree = CallTree::new(profile, Roots::Functions, limits);
        let rows = tree.rows(limits.value);
        rows.iter()
            .map(|row| match row {
                Row::Function {
                    function,
                    indent,
                    continues,
                    own,
                    total,
                } => format!(
                    "{}{}{} {} {}",
                    "  ".repeat(*indent),
                    if *continues { "→ " } else { "" },
                    function.name,
                    total / PERIOD_NS,
                    own / PERIOD_NS
                ),
                Row::Folded { indent, folded } => format!(
                    "{}… {} {}",
                    "  ".repeat(*indent),
                    folded.functions,
                    folded.value / PERIOD_NS
                ),
            })
            .collect()
    }

    #[test]
    fn values_add_up_at_every_node() {
        let profile = example_profile("main.py");
        for limits in [
            ALL,
            Limits { nodes: 4, ..ALL },
            Limits { indent: 2, ..ALL },
            Limits {
                value: 20 * PERIOD_NS,
                ..ALL
            },
        ] {
            let tree = CallTree::new(&profile, Roots::Functions, limits);
            let of = |children: &[usize]| -> u64 {
                let children = children.iter();
                children.map(|&child| tree.nodes[child].total).sum()
            };
            for node in &tree.nodes {
                let sum = node.own + of(&node.children) + node.folded.value;
                assert_eq!(sum, node.total, "{limits:?}");
            }
            let all = of(&tree.roots) + tree.folded.value;
            assert_eq!(all, profile.total_value(), "{limits:?}");
            assert!(tree.nodes.len() <= limits.nodes);
        }
    }

    #[test]
    fn the_largest_nodes_are_shown() {
        let profile = example_profile("main.py").without_interpreters();
        let limits = Limits {
            nodes: 5,
            value: 20 * PERIOD_NS,
            ..ALL
        };
        assert_eq!(
            rows(&profile, limits),
            [
                "<module> 364 0",
                "  main 361 5",
                "    get 156 0",
                "      loads 150 150",
                "    fib 150 0",
                "      … 1 150",
                "    … 2 50",
                "… 4 36",
            ]
        );
    }

    #[test]
    fn what_has_all_of_its_caller_is_not_indented() {
        let mut profile = example_profile("main.py");
        profile.samples.truncate(1);
        let text = rows(&profile, ALL);
        assert!(!text[0].contains('→'));
        assert!(
            text[1..].iter().all(|row| row.starts_with("→ ")),
            "{text:?}"
        );
    }

    #[test]
    fn a_stack_of_any_depth_has_a_bounded_tree() {
        let mut profile = example_profile("main.py");
        profile.samples.truncate(1);
        let stack = profile.samples[0].stack.0 as usize;
        let root = profile.stacks[stack][0];
        profile.stacks[stack] = vec![root; 100_000].into();
        assert_eq!(rows(&profile, ALL).len(), MAX_DEPTH);
        profile.samples.clear();
        assert!(rows(&profile, ALL).is_empty());
    }
}
