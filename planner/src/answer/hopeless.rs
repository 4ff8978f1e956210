//! Why no node can be freed for a critical add-on, with the numbers of the nearest one.

use crate::api::{Fate, GuaranteedBudget, Hopeless, Nearest, Refusal};
use crate::filters::{Nodes, Rank, unsuitable};
use crate::model::{Pod, ResourceId, Role};
use crate::problem::Problem;
use std::collections::BTreeMap;
use std::iter::once;

/// Explains why no node can be freed for the critical add-on `pod`: numbers of nodes by reason, from `all_nodes`, and the nearest node of
/// `problem`. `fates` says by index of a unit (a single pod or a whole group) whether it may be evicted; `looked` are the number of nodes
/// on which victims were searched, and of those that evictions could free.
pub(super) fn hopeless(
    problem: &Problem<'_>,
    all_nodes: &Nodes<'_>,
    pod: &Pod,
    fates: &[Fate],
    looked: (usize, usize),
) -> Hopeless {
    let mut counts: BTreeMap<Refusal, usize> = BTreeMap::new();
    (0..all_nodes.len())
        .filter_map(|rank| unsuitable(pod, all_nodes.at(rank)))
        .for_each(|r| *counts.entry(r).or_default() += 1);
    let mut refusals: Vec<(usize, Refusal)> = counts.into_iter().map(|(refusal, n)| (n, refusal)).collect();
    refusals.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let nearest = nearest(problem, pod, fates);
    Hopeless { nodes: all_nodes.len(), unknown: Vec::new(), refusals, nearest, looked }
}

/// Returns the node that lacks least for the critical add-on after all permitted evictions, with its numbers; `None` if every node is
/// infeasible by filters that do not depend on other pods. `fates` says by index of a unit (a single pod or a whole group) whether it may
/// be evicted.
fn nearest(problem: &Problem<'_>, pod: &Pod, fates: &[Fate]) -> Option<Nearest> {
    let class = problem.classes.first()?;
    let then = problem.occupancy_after_terminations();
    // The pods of each unit are read once, not once per node of the unit.
    let mut goes = vec![false; problem.cluster.pod_bound()];
    let going = problem.potential.units.iter().zip(fates).filter(|(_, fate)| **fate != Fate::Stays);
    going.flat_map(|(unit, _)| &unit.pods).for_each(|pod| goes[*pod as usize] = true);
    let lacks = |rank: Rank| -> Vec<(ResourceId, i128)> {
        let cluster = problem.cluster;
        let here = cluster.rows_at(problem.nodes.index(rank)).filter(|(pod, _)| goes[*pod as usize]);
        let kinds: Vec<_> = here.filter_map(|(_, row)| cluster.class(row.class)).collect();
        let freed = |id| kinds.iter().map(|kind| kind.requests.get(id)).sum::<i128>();
        let free = then.free(rank);
        let amounts = pod.requests.iter().map(|(id, n)| (id, n - free[usize::from(id)] - freed(id)));
        amounts.filter(|(_, lacking)| *lacking > 0).collect()
    };
    let usable = (0..problem.nodes.len()).filter(|rank| class.unsuitable[*rank].is_none());
    let measured = usable
        .map(|rank| (rank, lacks(rank)))
        .map(|(rank, lacks)| (problem.cluster.share(lacks.iter().copied()), rank, lacks));
    let (_, rank, lacks) = measured.min_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)))?;
    Some(describe(problem, pod, fates, rank, lacks))
}

/// Returns the node `rank` (an index in the list of nodes) as the nearest one: what it still `lacks`, and how many pods there may and must
/// not be evicted. `fates` says by index of a unit (a single pod or a whole group) whether it may be evicted.
fn describe(problem: &Problem<'_>, pod: &Pod, fates: &[Fate], rank: Rank, lacks: Vec<(ResourceId, i128)>) -> Nearest {
    let cluster = problem.cluster;
    let going: Vec<usize> =
        problem.potential.on[rank].iter().copied().filter(|unit| fates[*unit] != Fate::Stays).collect();
    let node = problem.nodes.index(rank);
    let here = |unit: &usize| {
        let pods = problem.potential.units[*unit].pods.iter();
        pods.filter(|pod| cluster.row(**pod).node == Some(node)).count()
    };
    let evictable: usize = going.iter().map(here).sum();
    let leaving = problem.leaving.iter().filter(|(_, on)| *on == rank).count();
    let all = cluster.rows_at(node).count();
    let mut occupancy = problem.occupancy_after_terminations();
    going.iter().for_each(|unit| occupancy.take(&problem.potential.units[*unit].pods));
    let refusal = problem
        .demand
        .members
        .first()
        .and_then(|member| occupancy.refuse(*member, rank))
        .filter(|refusal| !matches!(refusal, Refusal::Insufficient(_)));
    let units: Vec<_> = going.iter().map(|unit| problem.potential.units[*unit].clone()).collect();
    let guaranteed = problem.budgets.guaranteed(&units).into_iter();
    Nearest {
        node: problem.nodes.at(rank).name.clone(),
        evictable,
        stay: all.saturating_sub(evictable + leaving),
        protected: cluster.rows_at(node).filter(|(_, row)| row.role == Role::Protected).count(),
        refusal: refusal.map(|refusal| refusal.on_one_node(|id| cluster.resource_name_for(pod, id))),
        guaranteed: guaranteed
            .map(|(budget, allowed, threshold)| GuaranteedBudget { key: budget.key.clone(), allowed, threshold })
            .collect(),
        lacks: lacks.into_iter().flat_map(|(id, amount)| cluster.by_name(id, amount, once(pod))).collect(),
    }
}
