//! The clusters that are measured: nodes of 8 CPUs, full of pods of 1 CPU and low priority.

/// CPUs of a node.
pub const CPUS: u32 = 8;

/// What fills the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Single pods.
    Singles,
    /// Groups of so many pods that go whole or not at all, one node filled after the other.
    Packed(usize),
    /// The same groups, spread over the nodes at random.
    Spread(usize),
}

/// One row of the table.
#[derive(Clone, Debug)]
pub struct Row {
    /// By which it can be chosen.
    pub name: &'static str,
    /// How many nodes there are.
    pub nodes: usize,
    /// What fills them.
    pub layout: Layout,
    /// How many pods the gang has.
    pub gang: usize,
    /// CPUs of each of them.
    pub cpus: u32,
    /// The fewest pods that can go: one for one where groups allow it, and otherwise the best that a solver found for
    /// a cluster of this kind in 200 s.
    pub fewest: usize,
    /// Whether `fewest` is proven for this very cluster.
    pub proven: bool,
}

impl Row {
    /// The row in words.
    pub fn describe(&self) -> String {
        let low = match self.layout {
            Layout::Singles => "single pods".to_owned(),
            Layout::Packed(size) => format!("groups of {size}, packed"),
            Layout::Spread(size) => format!("groups of {size}, spread"),
        };
        let each = if self.cpus == 1 { String::new() } else { format!(" × {} CPU", self.cpus) };
        format!("{} × {CPUS}, {low}; gang {}{each}", self.nodes, self.gang)
    }

    /// The largest part of the in-tree scheduler's time that Giveway may take, with the scheduler's own rate and with
    /// a raised one.
    pub fn goals(&self) -> (f64, f64) {
        match self.layout {
            Layout::Singles => (1.0, 1.0),
            Layout::Packed(_) if self.is_large() => (0.08, 0.5),
            Layout::Packed(_) => (0.10, 0.5),
            Layout::Spread(_) => (0.20, 0.7),
        }
    }

    /// How often as long as kube-scheduler takes to bind as many pods to free places Giveway may take, at the scheduler's
    /// own rate; only of large gangs, for which the scheduler's rate counts and not the number of steps.
    pub fn free_goal(&self) -> Option<f64> {
        self.is_large().then_some(1.5)
    }

    fn is_large(&self) -> bool {
        self.gang >= 256
    }

    /// How many nodes the gang takes where it has them for itself.
    pub fn nodes_for_gang(&self) -> usize {
        let on_one_node = (CPUS / self.cpus).max(1);
        self.gang.div_ceil(usize::try_from(on_one_node).unwrap_or(1))
    }
}

const fn row(name: &'static str, nodes: usize, layout: Layout, gang: usize) -> Row {
    Row { name, nodes, layout, gang, cpus: 1, fewest: gang, proven: true }
}

/// Every row, small ones first.
pub static ROWS: [Row; 9] = [
    row("singles-50", 50, Layout::Singles, 32),
    row("packed-100", 100, Layout::Packed(4), 32),
    row("packed-200", 200, Layout::Packed(8), 64),
    row("spread-200", 200, Layout::Spread(8), 64),
    row("spread-500", 500, Layout::Spread(8), 128),
    Row { cpus: 4, fewest: 128, proven: false, ..row("halves-100", 100, Layout::Spread(8), 16) },
    Row { cpus: 8, fewest: 160, proven: false, ..row("wholes-100", 100, Layout::Spread(4), 8) },
    row("packed-1000", 1_000, Layout::Packed(8), 256),
    row("packed-2000", 2_000, Layout::Packed(8), 512),
];
