//! The clusters that are measured: nodes of 8 CPUs, full of pods of 1 CPU and low priority.

/// CPUs of a node.
pub const CPUS: u32 = 8;

/// Units of the pods that fill the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Single pods.
    Singles,
    /// Groups of this size in mode `PodGroup`; one node is filled after the other.
    Packed(usize),
    /// Groups of this size in mode `PodGroup`, spread over the nodes at random.
    Spread(usize),
}

/// One row of the table.
#[derive(Clone, Debug)]
pub struct Row {
    /// Name for the command line.
    pub name: &'static str,
    /// Number of nodes.
    pub nodes: usize,
    /// Pods that fill the nodes.
    pub layout: Layout,
    /// Number of pods of the gang.
    pub gang: usize,
    /// CPU request of each pod of the gang.
    pub cpus: u32,
    /// Smallest possible number of evictions: one per member if the groups permit it, otherwise the best result of a solver for a
    /// cluster of this kind after 200 s.
    pub fewest: usize,
    /// Whether `fewest` is proven for this cluster.
    pub proven: bool,
}

impl Row {
    /// Returns a description of the row.
    pub fn describe(&self) -> String {
        let low = match self.layout {
            Layout::Singles => "single pods".to_owned(),
            Layout::Packed(size) => format!("groups of {size}, packed"),
            Layout::Spread(size) => format!("groups of {size}, spread"),
        };
        let each = if self.cpus == 1 { String::new() } else { format!(" × {} CPU", self.cpus) };
        format!("{} × {CPUS}, {low}; gang {}{each}", self.nodes, self.gang)
    }

    /// Returns the goals for the ratio of Giveway's time to that of the in-tree preemption, at the default and at the raised rate
    /// of the scheduler's client.
    pub fn goals(&self) -> (f64, f64) {
        match self.layout {
            Layout::Singles => (1.0, 1.0),
            Layout::Packed(_) if self.is_large() => (0.08, 0.5),
            Layout::Packed(_) => (0.10, 0.5),
            Layout::Spread(_) => (0.20, 0.7),
        }
    }

    /// Returns the goal for the ratio of Giveway's time to that of kube-scheduler on free nodes, at the default rate. Only large
    /// gangs have a goal, because their time depends on the rate of the scheduler's client and not on the number of steps.
    pub fn free_goal(&self) -> Option<f64> {
        self.is_large().then_some(1.5)
    }

    fn is_large(&self) -> bool {
        self.gang >= 256
    }

    /// Returns the number of empty nodes that the gang needs.
    pub fn nodes_for_gang(&self) -> usize {
        let on_one_node = (CPUS / self.cpus).max(1);
        self.gang.div_ceil(usize::try_from(on_one_node).unwrap_or(1))
    }
}

const fn row(name: &'static str, nodes: usize, layout: Layout, gang: usize) -> Row {
    Row { name, nodes, layout, gang, cpus: 1, fewest: gang, proven: true }
}

/// All rows, small ones first.
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
