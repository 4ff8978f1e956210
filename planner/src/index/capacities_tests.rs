//! What is computed from kept sums is what the pods of a node give, and only nodes that changed are computed again.

use super::at_risk::AtRisk;
use super::capacities::Capacities;
use super::node_capacity::{CapacityReader, NodeCapacity, OwnSums};
use crate::api::{Context, Preemptor};
use crate::filters::Nodes;
use crate::model::Cluster;
use crate::problem::{Demand, InFlight};
use giveway_planner::worlds::world::{Around, LARGER, World, for_all, worlds_of_racks};
use giveway_planner::worlds::{Built, cluster, for_pod, node, pod};
use proptest::prelude::{Strategy as _, prop_assert_eq};
use std::collections::BTreeMap;

/// Computes the capacities for a preemptor, or brings them up to date.
fn look(cluster: &Cluster, preemptor: &Preemptor, known: Option<Capacities>) -> Option<Capacities> {
    let context = Context::default();
    let demand = Demand::of(cluster, preemptor, &context).ok()?;
    let (nodes, in_flight) = (Nodes::new(cluster), InFlight::new(cluster, &demand, &context));
    let member = *demand.members.first()?;
    let class = cluster.class(cluster.row(member).class)?;
    let new = || Capacities::new(cluster, class, demand.priority, false, in_flight.reserved.respect);
    let mut known = known.or_else(new)?;
    known.catch_up(cluster, &nodes, cluster.pod_at(member)?, &in_flight)?;
    Some(known)
}

#[test]
fn kept_sums_give_the_same_capacity_as_the_pods_of_the_node() {
    let worlds = worlds_of_racks(LARGER, Around::Nothing).prop_map(|world| World { apart: false, ..world });
    let meant = for_all(2000, 71, worlds, |world| {
        let (cluster, preemptor, context) = (cluster(&world.objects()), world.preemptor(), Context::default());
        let Some(known) = look(&cluster, &preemptor, None) else { return Ok(false) };
        let demand = Demand::of(&cluster, &preemptor, &context).unwrap();
        let (nodes, in_flight) = (Nodes::new(&cluster), InFlight::new(&cluster, &demand, &context));
        // Where a decision differs from the model, the pods are read.
        let patched = (0..nodes.len()).map(|rank| (rank, Vec::new())).collect();
        let mut reader = CapacityReader {
            cluster: &cluster,
            nodes: &nodes,
            scale: &known.scale,
            in_flight: &in_flight,
            class: &known.class,
            priority: demand.priority,
            patched: &patched,
            at_risk: AtRisk::new(&cluster, &in_flight, &known.violations, demand.priority),
            own: OwnSums::default(),
        };
        let read: Vec<NodeCapacity> =
            (0..nodes.len()).map(|rank| reader.capacity(rank, known.nodes[rank].refusal.clone())).collect();
        prop_assert_eq!(&known.nodes, &read);
        let unlike = |answer: &NodeCapacity| answer.steps.iter().any(|step| step.mild < step.all);
        Ok(read.iter().any(unlike))
    });
    assert!(meant > 200, "{meant}");
}

/// Three nodes with a pod each, and the preemptor.
fn three_nodes() -> Vec<Built> {
    let mut all = vec![pod("p").priority(50).asks("cpu", "2")];
    for name in ["b", "d", "f"] {
        all.extend([node(name, 4), pod(&format!("low-{name}")).priority(1).asks("cpu", "3").on(name)]);
    }
    all
}

#[test]
fn nodes_that_come_and_go_leave_what_is_known_of_the_others() {
    let mut cluster = cluster(&three_nodes());
    let mut known = look(&cluster, &for_pod("p"), None).unwrap();
    // What is not computed again keeps this mark.
    let mark = |rank: usize| 1000 + u32::try_from(rank).unwrap();
    known.nodes.iter_mut().enumerate().for_each(|(rank, answer)| answer.movable = mark(rank));
    for name in ["a", "c", "g"] {
        giveway_planner::worlds::add(&mut cluster, &node(name, 4));
    }
    cluster.remove_node("d");
    giveway_planner::worlds::add(&mut cluster, &node("e", 8));
    let known = look(&cluster, &for_pod("p"), Some(known)).unwrap();
    let movable: BTreeMap<&str, u32> =
        cluster.node_order().iter().zip(&known.nodes).map(|((_, node), a)| (node.name.as_str(), a.movable)).collect();
    let expected = [("a", 0), ("b", mark(0)), ("c", 0), ("e", 0), ("f", mark(2)), ("g", 0)];
    assert_eq!(movable, BTreeMap::from(expected));
    let open: Vec<(u32, usize)> = known.open.iter().map(|(_, fit, rank)| (*fit, *rank)).collect();
    assert_eq!(open, [(2, 0), (2, 2), (2, 5), (4, 3)], "a, c, g, e");
}

/// All sums over the nodes.
fn sums(known: &Capacities) -> String {
    let totals = &known.totals;
    let fit = (totals.now, totals.then, totals.most, totals.candidates, totals.usable, totals.large);
    let freed: i128 = totals.freed.iter().sum();
    let gains = (&totals.gains, &totals.lawful_gains, totals.movable, freed, &totals.lacks);
    format!("{fit:?} {gains:?} {:?}", totals.refusals)
}

#[test]
fn after_nodes_were_added_and_removed_all_sums_are_those_of_a_new_model() {
    let mut all = three_nodes();
    let mut live = cluster(&all);
    let mut known = look(&live, &for_pod("p"), None);
    let names = ["a", "b", "c", "d", "e", "f", "g"];
    for step in 0..60usize {
        let name = names[step * 5 % 7];
        let there = all.iter().position(|object| object.0["kind"] == "Node" && object.0["metadata"]["name"] == name);
        match there {
            Some(at) => {
                all.remove(at);
                live.remove_node(name);
            }
            None => {
                all.push(node(name, 1 + step % 5));
                giveway_planner::worlds::add(&mut live, &all[all.len() - 1]);
            }
        }
        if step % 3 == 0 {
            known = look(&live, &for_pod("p"), known);
            let (now, anew) = (known.as_ref().unwrap(), look(&cluster(&all), &for_pod("p"), None).unwrap());
            assert_eq!((&now.nodes, &now.open), (&anew.nodes, &anew.open), "{step}");
            assert_eq!(sums(now), sums(&anew), "{step}");
        }
    }
}
