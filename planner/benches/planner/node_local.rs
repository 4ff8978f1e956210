//! The fairest rival: one pass over the nodes, each evaluated by itself: how many members fit there without the pods of lower priority, and
//! which victims that takes; then the cheapest nodes are chosen, and groups are disrupted together. It is fast, but ignores what a group on
//! many nodes costs, and what its eviction frees on other nodes.

use crate::baseline::{Amounts, Baseline, fits, plus};
use std::collections::BTreeSet;

/// Capacity of a node.
struct Offer {
    members: usize,
    highest: i32,
    /// Sum of the priorities that are evicted for a member.
    sum: i64,
    victims: Vec<usize>,
}

impl Baseline {
    fn offer(&self, node: usize, priority: i32, most: usize, asks: &Amounts) -> Option<Offer> {
        let mut free = self.free[node];
        let here = |unit: usize| self.units[unit].pods.iter().filter(move |(at, _)| *at == node);
        let mut units: Vec<usize> =
            self.on[node].iter().copied().filter(|unit| self.units[*unit].priority < priority).collect();
        units.iter().for_each(|unit| here(*unit).for_each(|(_, amounts)| plus(&mut free, amounts, 1)));
        let mut members = 0;
        while members < most && fits(&free, asks) {
            plus(&mut free, asks, -1);
            members += 1;
        }
        if members == 0 {
            return None;
        }
        self.important_first(&mut units);
        let mut victims = Vec::new();
        for unit in units {
            here(unit).for_each(|(_, amounts)| plus(&mut free, amounts, -1));
            if !fits(&free, &[0; _]) {
                here(unit).for_each(|(_, amounts)| plus(&mut free, amounts, 1));
                victims.push(unit);
            }
        }
        let priorities = || victims.iter().map(|unit| self.units[*unit].priority);
        let sum: i64 = priorities().map(|priority| i64::from(priority) + (1 << 31)).sum();
        let highest = priorities().max().unwrap_or(i32::MIN);
        Some(Offer { members, highest, sum: sum / i64::try_from(members).unwrap(), victims })
    }

    /// Returns the number of pods evicted for `members` pods like the one given; `None` if they do not fit whatever is evicted.
    pub(crate) fn node_by_node(&self, priority: i32, members: usize, asks: &Amounts, apart: bool) -> Option<usize> {
        let most = if apart { 1 } else { members };
        let mut offers: Vec<Offer> =
            (0..self.free.len()).filter_map(|node| self.offer(node, priority, most, asks)).collect();
        offers.sort_by_key(|offer| (offer.highest, offer.sum));
        let (mut placed, mut victims) = (0, BTreeSet::new());
        for offer in offers {
            if placed >= members {
                break;
            }
            placed += offer.members;
            victims.extend(offer.victims);
        }
        (placed >= members).then(|| victims.iter().map(|unit| self.units[*unit].pods.len()).sum())
    }
}
