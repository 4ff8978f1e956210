//! Why no node can be freed for a critical add-on, with the numbers of the nearest one.

use super::terms::Fate;
use crate::explain::GuaranteedBudget;
use crate::feasibility::{Nodes, Rank, Refusal, unsuitable};
use crate::model::{Pod, ResourceId};
use crate::problem::Problem;
use crate::quantity;
use smol_str::SmolStr;
use std::collections::BTreeMap;
use std::fmt;

/// Why nobody is evicted. `Display` is the sentence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hopeless {
    /// How many nodes there are.
    pub nodes: usize,
    /// What the pod asks for and nobody here knows whether eviction gives it; nothing else was looked at then.
    pub unknown: Vec<&'static str>,
    /// How many nodes are out whoever runs there, and why; the most frequent reason first.
    pub refusals: Vec<(usize, Refusal)>,
    /// Of the others, the one that lacks least.
    pub nearest: Option<Nearest>,
    /// Nodes that were looked at, and nodes that could perhaps be freed; the same unless there were too many.
    pub looked: (usize, usize),
}

/// The node that lacks least.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nearest {
    /// Its name.
    pub node: SmolStr,
    /// Pods there that may go.
    pub may_go: usize,
    /// Pods there that stay: critical ones, those of DaemonSets, static ones, and whole groups with such a pod.
    pub stay: usize,
    /// What is still missing without those that may go: name and amount of each resource.
    pub lacks: Vec<(String, i128)>,
    /// What keeps the pod away although enough is free: "a port that it needs is taken".
    pub refusal: Option<String>,
    /// Budgets that are guaranteed against the pod and of which more pods would have to go.
    pub guaranteed: Vec<GuaranteedBudget>,
}

impl Hopeless {
    /// Explains why no choice was found. `all` are all nodes.
    pub(super) fn of(
        problem: &Problem<'_>,
        all: &Nodes<'_>,
        pod: &Pod,
        fates: &[Fate],
        looked: (usize, usize),
    ) -> Self {
        let mut counts: BTreeMap<Refusal, usize> = BTreeMap::new();
        (0..all.len())
            .filter_map(|rank| unsuitable(pod, all.at(rank)))
            .for_each(|r| *counts.entry(r).or_default() += 1);
        let mut refusals: Vec<(usize, Refusal)> = counts.into_iter().map(|(refusal, n)| (n, refusal)).collect();
        refusals.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        let nearest = nearest(problem, pod, fates);
        Self { nodes: all.len(), unknown: Vec::new(), refusals, nearest, looked }
    }
}

fn nearest(problem: &Problem<'_>, pod: &Pod, fates: &[Fate]) -> Option<Nearest> {
    let shape = problem.shapes.first()?;
    let then = problem.room_then();
    // Every pod is read once, and not once for each node that its group is on.
    let mut goes = vec![false; problem.cluster.pod_bound()];
    let going = problem.potential.units.iter().zip(fates).filter(|(_, fate)| **fate != Fate::Stays);
    going.flat_map(|(unit, _)| &unit.pods).for_each(|pod| goes[*pod as usize] = true);
    let lacks = |rank: Rank| -> Vec<(ResourceId, i128)> {
        let cluster = problem.cluster;
        let here = cluster.rows_at(problem.nodes.index(rank)).filter(|(pod, _)| goes[*pod as usize]);
        let kinds: Vec<_> = here.filter_map(|(_, row)| cluster.kind(row.kind)).collect();
        let freed = |id| kinds.iter().map(|kind| kind.requests.get(id)).sum::<i128>();
        let free = then.free(rank);
        let amounts = pod.requests.iter().map(|(id, n)| (id, n - free[usize::from(id)] - freed(id)));
        amounts.filter(|(_, lacking)| *lacking > 0).collect()
    };
    let usable = (0..problem.nodes.len()).filter(|rank| shape.unsuitable[*rank].is_none());
    let measured = usable
        .map(|rank| (rank, lacks(rank)))
        .map(|(rank, lacks)| (problem.cluster.share(lacks.iter().copied()), rank, lacks));
    let (_, rank, lacks) = measured.min_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)))?;
    Some(describe(problem, pod, fates, rank, lacks))
}

fn describe(problem: &Problem<'_>, pod: &Pod, fates: &[Fate], rank: Rank, lacks: Vec<(ResourceId, i128)>) -> Nearest {
    let cluster = problem.cluster;
    let going: Vec<usize> =
        problem.potential.on[rank].iter().copied().filter(|unit| fates[*unit] != Fate::Stays).collect();
    let node = problem.nodes.index(rank);
    let here = |unit: &usize| {
        let pods = problem.potential.units[*unit].pods.iter();
        pods.filter(|pod| cluster.row(**pod).node == Some(node)).count()
    };
    let may_go: usize = going.iter().map(here).sum();
    let leaving = problem.leaving.iter().filter(|(_, on)| *on == rank).count();
    let everybody = cluster.rows_at(node).count();
    let mut room = problem.room_then();
    going.iter().for_each(|unit| room.take(&problem.potential.units[*unit].pods));
    let refusal = room.refuse(pod, rank).filter(|refusal| !matches!(refusal, Refusal::Insufficient(_)));
    let units: Vec<_> = going.iter().map(|unit| problem.potential.units[*unit].clone()).collect();
    let guaranteed = problem.budgets.guaranteed(&units).into_iter();
    Nearest {
        node: problem.nodes.at(rank).name.clone(),
        may_go,
        stay: everybody.saturating_sub(may_go + leaving),
        refusal: refusal.map(|refusal| refusal.on_one_node(|id| cluster.resource_name(id))),
        guaranteed: guaranteed
            .map(|(budget, allowed, threshold)| GuaranteedBudget { key: budget.key.clone(), allowed, threshold })
            .collect(),
        lacks: lacks.into_iter().map(|(id, amount)| (cluster.resource_name(id).to_owned(), amount)).collect(),
    }
}

impl fmt::Display for Hopeless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.unknown.is_empty() {
            return write!(
                f,
                "Nobody is evicted for it, because eviction may not help: Giveway does not know {}.",
                self.unknown.join(", nor ")
            );
        }
        match &self.nearest {
            None if self.nodes == 0 => f.write_str("There is no node.")?,
            None => f.write_str("No node suits it whoever goes, so nobody is evicted:")?,
            Some(nearest) => write!(f, "No node can be freed for it, so nobody is evicted. {nearest}")?,
        }
        if !self.refusals.is_empty() {
            let list: Vec<String> = self.refusals.iter().map(|(n, refusal)| format!("{n} {refusal}")).collect();
            write!(f, " {}.", list.join(", "))?;
        }
        if self.looked.0 < self.looked.1 {
            write!(f, " Only {} of {} nodes were looked at.", self.looked.0, self.looked.1)?;
        }
        Ok(())
    }
}

impl fmt::Display for Nearest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |n: usize| if n == 1 { "" } else { "s" };
        let Self { node, may_go, stay, .. } = self;
        write!(f, "The nearest is {node}: without the {may_go} pod{} there that may go ", plural(*may_go))?;
        if !self.lacks.is_empty() {
            let amount = |(name, amount): &(String, i128)| format!("{} {name}", quantity::format(name, *amount));
            write!(f, "it still lacks {}", self.lacks.iter().map(amount).collect::<Vec<_>>().join(", "))?;
        } else if let Some(refusal) = &self.refusal {
            f.write_str(refusal)?;
        } else if self.guaranteed.is_empty() {
            f.write_str("it would have room, but those that stay need a place that they do not have")?;
        } else {
            let list: Vec<String> = self.guaranteed.iter().map(ToString::to_string).collect();
            write!(f, "it would have room, but too many of them are of {}", list.join(", or of "))?;
        }
        write!(f, "; {stay} pod{} there stay{}.", plural(*stay), if *stay == 1 { "s" } else { "" })
    }
}
