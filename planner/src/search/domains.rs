//! Lower bounds on the cost of victims in a topology domain, so that few of many domains have to be searched.

use crate::api::{Cost, offset_priority};
use crate::filters::{Nodes, Rank};
use crate::model::{Cluster, ResourceId, UnitRef};
use crate::problem::{Demand, InFlight};
use std::collections::BTreeMap;

/// Returns a lower bound on the cost of every plan that places the needed members of a demand on the nodes with these `ranks` (indexes in
/// the list of nodes). `ceiling` is the bound for the highest priority of a victim: no plan with as few budget violations as possible has a
/// lower one.
pub(crate) fn lower_bound(
    cluster: &Cluster,
    nodes: &Nodes<'_>,
    in_flight: &InFlight,
    demand: &Demand,
    ranks: &[Rank],
    ceiling: i32,
) -> Cost {
    let asked = least_asked(cluster, demand);
    // By unit: what its eviction frees of each resource on these nodes.
    let mut freed: BTreeMap<UnitRef, Vec<i128>> = BTreeMap::new();
    let mut missing: Vec<i128> = asked.iter().map(|(_, amount)| amount * demand.need as i128).collect();
    for rank in ranks {
        let free = cluster.free().row(nodes.index(*rank));
        let mut open: Vec<i128> =
            asked.iter().map(|(id, _)| free.get(usize::from(*id)).copied().unwrap_or(0)).collect();
        for (index, row) in cluster.rows_at(nodes.index(*rank)) {
            let Some(class) = cluster.class(row.class) else { continue };
            let amounts = asked.iter().map(|(id, _)| class.requests.get(*id));
            if in_flight.leaves(index, &row) {
                open.iter_mut().zip(amounts).for_each(|(open, amount)| *open += amount);
            } else if let Some(unit) = in_flight.unit_of(index, &row).filter(|_| row.priority <= ceiling) {
                let sums = freed.entry(unit).or_insert_with(|| vec![0; asked.len()]);
                sums.iter_mut().zip(amounts).for_each(|(sum, amount)| *sum += amount);
            }
        }
        missing.iter_mut().zip(open).for_each(|(missing, open)| *missing -= open.max(0));
    }
    let units: Vec<(u64, Vec<i128>)> = freed
        .into_iter()
        .filter_map(|(unit, freed)| {
            let found = cluster.unit(unit)?;
            let pods = in_flight.staying(cluster, &found);
            Some((offset_priority(found.priority).saturating_mul(pods as u64), freed))
        })
        .collect();
    let sums =
        (0..missing.len()).map(|at| least_weight_to_free(missing[at], units.iter().map(|(w, freed)| (*w, freed[at]))));
    Cost { highest_priority: Some(ceiling), priority_sum: sums.max().unwrap_or(0), ..Cost::default() }
}

/// Returns the resources that every member of a demand requests, each with the smallest request of a member.
fn least_asked(cluster: &Cluster, demand: &Demand) -> Vec<(ResourceId, i128)> {
    let mut classes: Vec<_> = demand.members.iter().map(|member| cluster.row(*member).class).collect();
    classes.sort_unstable();
    classes.dedup();
    let classes: Vec<_> = classes.into_iter().filter_map(|class| cluster.class(class)).collect();
    let Some(first) = classes.first() else { return Vec::new() };
    let least = |id: ResourceId| classes.iter().map(|class| class.requests.get(id)).min().unwrap_or(0);
    first.requests.iter().map(|(id, _)| (id, least(id))).filter(|(_, amount)| *amount > 0).collect()
}

/// Amounts below this are counted exactly.
const EXACT: i128 = 1 << 62;
/// Number of low bits that are dropped from larger amounts, which have at most [97 bits](crate::model).
const LOW_BITS: u32 = 60;

/// Returns a lower bound on the weight of units that together free `missing` of a resource: the weight if fractions of units could be
/// evicted, those that free most for their weight first. `offers` has for each unit (a single pod or a whole group) its weight and the
/// amount that it frees. 0 if nothing is missing; the weight of all units that free some if even all of them do not suffice.
pub(crate) fn least_weight_to_free(mut missing: i128, offers: impl Iterator<Item = (u64, i128)>) -> u64 {
    if missing <= 0 {
        return 0;
    }
    let mut offers: Vec<(u64, i128)> = offers.filter(|(_, freed)| *freed > 0).collect();
    // A weight has 64 bits, so that no product overflows below this. The low bits of larger amounts are dropped so that the bound remains a
    // lower bound: the missing amount is rounded down, and the freed amounts are rounded up.
    if missing.max(offers.iter().map(|(_, freed)| *freed).max().unwrap_or(0)) >= EXACT {
        missing >>= LOW_BITS;
        offers.iter_mut().for_each(|(_, freed)| *freed = (*freed >> LOW_BITS) + 1);
    }
    offers.sort_unstable_by(|a, b| (i128::from(a.0) * b.1).cmp(&(i128::from(b.0) * a.1)));
    let mut total = 0u64;
    for (weight, freed) in offers {
        if missing <= 0 {
            break;
        }
        let part = match freed <= missing {
            true => weight,
            false => u64::try_from((i128::from(weight) * missing + freed - 1) / freed).unwrap_or(0),
        };
        total = total.saturating_add(part);
        missing -= freed;
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_stays_one_for_amounts_that_multiply_beyond_what_can_be_counted() {
        assert_eq!(least_weight_to_free(10, [(4, 5), (1, 5)].into_iter()), 5);
        assert_eq!(
            least_weight_to_free(7, [(4, 5), (1, 5)].into_iter()),
            3,
            "one whole, and two fifths of the other, rounded up"
        );
        let most = 1i128 << 96;
        assert_eq!(least_weight_to_free(most - 1, [(6, most)].into_iter()), 6);
        assert!(least_weight_to_free(most, [(u64::MAX, most), (1, most / 2)].into_iter()) <= u64::MAX / 2 + 2);
        assert_eq!(least_weight_to_free(1, [(u64::MAX, most)].into_iter()), 0, "below, and never above");
    }
}
