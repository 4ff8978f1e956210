//! The map of nodes: one cell for each node, or for each topology domain of a large cluster, with what pods of each priority use.

use crate::overview::usage::{Capacity, NodeUsage, Resource, total};
use crate::world::World;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of cells, which a browser draws within a few frames.
const MOST_CELLS: usize = 2000;

/// Label of zones: the domains that are shown beside those that groups ask for.
pub(super) const ZONE: &str = "topology.kubernetes.io/zone";

/// What a plan does on each node.
#[derive(Debug, Default)]
pub(super) struct PlanOnNodes<'p> {
    /// Number of placed pods, by node.
    pub(super) placed: BTreeMap<&'p str, usize>,
    /// Number of victims, by node.
    pub(super) victims: BTreeMap<&'p str, usize>,
}

/// The map of nodes that the page draws for one resource.
#[derive(Debug, Default, Serialize)]
pub(super) struct NodeMap {
    /// What a cell is: `node`, `nodes` (several by name), or the label of a topology domain.
    by: String,
    /// Name of the resource.
    resource: String,
    /// Names of all resources.
    resources: Vec<String>,
    cells: Vec<MapCell>,
}

/// A cell: one rectangle of the map, for one node or several ([`Grouping`]), with what pods request there and what a plan would do.
#[derive(Debug, Serialize)]
pub(super) struct MapCell {
    name: String,
    /// Number of nodes.
    nodes: usize,
    /// Number of cordoned nodes.
    cordoned: usize,
    /// Priority, and the share of the capacity that its pods use, in thousandths; the highest priority first.
    levels: Vec<(i32, i64)>,
    /// Number of pods that the plan places.
    placed: usize,
    /// Number of victims.
    victims: usize,
}

/// How nodes are put together into cells.
enum Grouping {
    Node,
    Label(String),
    /// Runs of this many nodes by name.
    Name(usize),
}

impl Grouping {
    /// Returns how nodes are combined into cells, so that the map has at most [`MOST_CELLS`]: not at all, by topology domain, or by
    /// name. `preferred` is the topology key of a plan, by which they are combined if possible.
    fn of(world: &World, preferred: Option<&str>) -> Self {
        let nodes = world.cluster.nodes().count();
        if nodes <= MOST_CELLS {
            return Self::Node;
        }
        let asked: BTreeSet<&str> = world.groups.values().filter_map(|group| group.spec.topology_key()).collect();
        let mut keys = preferred.into_iter().chain(asked).chain([ZONE]);
        let useful = keys.find(|key| {
            let values: BTreeSet<Option<&String>> = world.cluster.nodes().map(|node| node.labels.get(*key)).collect();
            (2..=MOST_CELLS).contains(&values.len())
        });
        match useful {
            Some(key) => Self::Label(key.to_owned()),
            None => Self::Name(nodes.div_ceil(MOST_CELLS)),
        }
    }

    /// Returns what a cell of the map stands for: `node`, `nodes` (several by name), or the label of a topology domain.
    fn word(&self) -> &str {
        match self {
            Self::Node => "node",
            Self::Label(key) => key,
            Self::Name(_) => "nodes",
        }
    }

    /// Divides nodes into the cells of the map. Returns the name and the nodes of each cell.
    fn cells<'n, 'c>(&self, nodes: &'n [NodeUsage<'c>]) -> Vec<(String, Vec<&'n NodeUsage<'c>>)> {
        match self {
            Self::Node => nodes.iter().map(|one| (one.node.name.to_string(), vec![one])).collect(),
            Self::Label(key) => {
                let mut cells: BTreeMap<&str, Vec<&'n NodeUsage<'c>>> = BTreeMap::new();
                for one in nodes {
                    let value = one.node.labels.get(key).map_or("(no label)", String::as_str);
                    cells.entry(value).or_default().push(one);
                }
                cells.into_iter().map(|(value, nodes)| (value.to_owned(), nodes)).collect()
            }
            Self::Name(length) => {
                let runs = nodes.chunks(*length).filter_map(|run| {
                    let (first, last) = (run.first()?.node, run.last()?.node);
                    Some((format!("{} to {}", first.name, last.name), run.iter().collect()))
                });
                runs.collect()
            }
        }
    }
}

impl NodeMap {
    /// Returns the map of nodes for a resource. `preferred` is the topology key of a plan, by which nodes are combined if possible;
    /// `marks` are the numbers of pods that the plan places and evicts on each node.
    pub(super) fn of(
        world: &World,
        capacity: &Capacity<'_>,
        resource: &Resource<'_>,
        preferred: Option<&str>,
        marks: &PlanOnNodes<'_>,
    ) -> Self {
        let grouping = Grouping::of(world, preferred);
        let cells = grouping.cells(&capacity.nodes).into_iter().map(|(name, nodes)| {
            let usage = total(nodes.iter().copied(), resource.id);
            let count = |marked: &BTreeMap<&str, usize>| -> usize {
                nodes.iter().filter_map(|one| marked.get(one.node.name.as_str())).sum()
            };
            MapCell {
                name,
                nodes: nodes.len(),
                cordoned: nodes.iter().filter(|one| one.node.unschedulable).count(),
                levels: usage.levels.iter().rev().map(|(level, used)| (*level, usage.share(*used))).collect(),
                placed: count(&marks.placed),
                victims: count(&marks.victims),
            }
        });
        Self {
            by: grouping.word().to_owned(),
            resource: resource.name.to_owned(),
            resources: capacity.resources.iter().map(|one| one.name.to_owned()).collect(),
            cells: cells.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overview::{Snapshot, samples};
    use serde_json::json;

    /// Returns the map of the CPU.
    fn map(snapshot: &Snapshot, marks: &PlanOnNodes<'_>) -> NodeMap {
        let capacity = Capacity::of(&snapshot.world.cluster, 0);
        NodeMap::of(&snapshot.world, &capacity, capacity.chosen(Some("cpu")).unwrap(), None, marks)
    }

    #[test]
    fn a_cell_has_the_shares_of_each_priority_and_what_the_plan_does_there() {
        let snapshot = samples::snapshot();
        let marks =
            PlanOnNodes { placed: BTreeMap::from([("n1", 2)]), victims: BTreeMap::from([("n1", 1), ("n2", 3)]) };
        let map = serde_json::to_value(map(&snapshot, &marks)).unwrap();
        let full = json!({"name": "n1", "nodes": 1, "cordoned": 0, "levels": [[10, 1000]], "placed": 2, "victims": 1});
        let half = json!({"name": "n2", "nodes": 1, "cordoned": 1, "levels": [[10, 500]], "placed": 0, "victims": 3});
        assert_eq!(
            map,
            json!({"by": "node", "resource": "cpu", "resources": ["cpu", "memory", "pods"], "cells": [full, half]})
        );
    }

    #[test]
    fn a_large_cluster_is_drawn_by_domain_or_by_runs_of_nodes() {
        let node = |number: usize, rack: Option<usize>| {
            let labels = rack.map(|rack| json!({"topology.kubernetes.io/zone": format!("z{}", rack % 7)}));
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("n{number:05}"), "labels": labels},
                "status": {"allocatable": {"cpu": "4"}}})
        };
        let drawn = |labelled: bool| {
            let nodes = (0..4500).map(|number| node(number, labelled.then_some(number))).collect();
            map(&Snapshot::of(nodes, Vec::new()), &PlanOnNodes::default())
        };
        let by_zone = drawn(true);
        assert_eq!((by_zone.by.as_str(), by_zone.cells.len()), (ZONE, 7));
        assert_eq!(by_zone.cells.iter().map(|cell| cell.nodes).sum::<usize>(), 4500);
        let by_name = drawn(false);
        assert_eq!((by_name.by.as_str(), by_name.cells.len()), ("nodes", 1500));
        assert_eq!(by_name.cells[0].name, "n00000 to n00002");
    }
}
