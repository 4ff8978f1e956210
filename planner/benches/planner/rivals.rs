//! The baseline, asked the same question as often and as warm as the planner.

use crate::baseline::{Amounts, Baseline};
use crate::measure::{Samples, Timer};
use giveway_planner::Cluster;
use std::time::{Duration, Instant};

/// No rival is measured for longer.
const ENOUGH: Duration = Duration::from_secs(4);

/// What is asked, in the baseline's terms.
#[derive(Clone, Copy)]
pub(crate) struct RivalQuestion {
    pub(crate) priority: i32,
    pub(crate) members: usize,
    pub(crate) asks: Amounts,
    /// True if no two members may share a node.
    pub(crate) apart: bool,
    /// True for a single pod.
    pub(crate) single: bool,
}

impl RivalQuestion {
    pub(crate) fn gang(priority: i32, members: usize, asks: Amounts) -> Self {
        Self { priority, members, asks, apart: false, single: false }
    }

    fn in_tree(&self, baseline: &mut Baseline) -> Option<usize> {
        if self.single {
            baseline.single(self.priority, &self.asks)
        } else {
            baseline.gang(self.priority, self.members, &self.asks, self.apart)
        }
    }

    fn node_by_node(&self, baseline: &mut Baseline) -> Option<usize> {
        baseline.node_by_node(self.priority, self.members, &self.asks, self.apart)
    }
}

/// What the rivals took, and how many pods they would evict.
pub(crate) struct Rivals {
    pub(crate) in_tree: Duration,
    pub(crate) node_by_node: Duration,
    pub(crate) said: String,
}

fn words(evicted: Option<usize>) -> String {
    evicted.map_or_else(|| "none".to_owned(), |evicted| evicted.to_string())
}

/// The median time of `rounds` requests, each on a copy of its own (cold) or repeatedly on the same data.
fn asked(
    baseline: &Baseline,
    cold: bool,
    rounds: usize,
    ask: impl Fn(&mut Baseline) -> Option<usize>,
) -> (Duration, Option<usize>) {
    let (mut samples, mut warm, start) = (Samples::default(), baseline.clone(), Instant::now());
    let mut said = if cold { None } else { ask(&mut warm) };
    for _ in 0..rounds {
        let mut copy = cold.then(|| baseline.clone());
        let timer = Timer::start();
        said = ask(copy.as_mut().unwrap_or(&mut warm));
        samples.push(timer.took());
        if start.elapsed() > ENOUGH {
            break;
        }
    }
    (samples.median(), said)
}

impl Rivals {
    /// Asks both.
    pub(crate) fn ask(cluster: &Cluster, question: RivalQuestion, cold: bool, rounds: usize) -> Self {
        let baseline = Baseline::new(cluster);
        let (in_tree, first) = asked(&baseline, cold, rounds, |copy| question.in_tree(copy));
        let (node_by_node, second) = asked(&baseline, cold, rounds, |copy| question.node_by_node(copy));
        Self { in_tree, node_by_node, said: format!("(in-tree {}, node by node {})", words(first), words(second)) }
    }
}
