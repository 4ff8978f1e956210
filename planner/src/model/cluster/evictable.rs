//! What evictions can free on a node: sums over its pods, priority by priority, updated with every change of a pod, so that a decision
//! reads priorities and not pods.

use crate::limits::MOST_IN_SUMS;
use crate::model::{ResourceId, Resources, Role, Row};
use smallvec::SmallVec;

/// Returns an amount of a resource limited to `MOST_IN_SUMS`, positive or negative, so that sums over the pods of a node fit into 64 bits.
pub(crate) fn clamped(amount: i128) -> i64 {
    i64::try_from(amount.clamp(-MOST_IN_SUMS, MOST_IN_SUMS)).unwrap_or(0)
}

/// Sums over those pods of a node that every preemptor of a higher priority may evict, by priority.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evictable {
    /// The priorities of these pods, ascending.
    priorities: Vec<i32>,
    /// The resources that any of them requests or requested.
    resources: SmallVec<[ResourceId; 6]>,
    /// Columns with an entry for every priority: the number of pods up to it, then for each resource what these pods request.
    sums: Vec<i64>,
    /// The pods that are leaving, or that are evictable for some preemptors of a higher priority only. The sums do not contain them.
    others: u32,
}

impl Evictable {
    /// Returns the distinct priorities of the node's evictable pods, ascending. The other lists have an entry for each of them.
    pub(crate) fn priorities(&self) -> &[i32] {
        &self.priorities
    }

    /// Returns, for each of [`Self::priorities`], the number of evictable pods with this priority or a lower one.
    pub(crate) fn pods(&self) -> &[i64] {
        self.column(0)
    }

    /// Returns, for each of [`Self::priorities`], how much of a resource the evictable pods with this priority or a lower one request;
    /// empty if none of them requests it.
    pub(crate) fn requests(&self, id: ResourceId) -> &[i64] {
        self.resources.iter().position(|known| *known == id).map_or(&[], |at| self.column(at + 1))
    }

    /// Reads a part of each list, so that the processor has it in its cache when it is needed. The result has no meaning: it depends on
    /// what was read, so that reading is not optimized away.
    pub(crate) fn prefetch(&self) -> i64 {
        // Eight sums are in one line of a cache.
        let sums = self.sums.iter().step_by(8).copied().fold(0_i64, |seen, sum| seen ^ sum);
        sums ^ self.priorities.last().copied().map_or(0, i64::from)
    }

    /// Returns true if the node has pods that are not in the sums although some preemptor may count on their capacity: a pod that
    /// terminates, or one that is evictable for some preemptors of a higher priority only.
    pub(crate) fn has_others(&self) -> bool {
        self.others > 0
    }

    /// Returns a column of `sums`, with an entry for each priority: column 0 is the number of pods, and the others are what they request of
    /// each resource, in the order of `resources`.
    fn column(&self, number: usize) -> &[i64] {
        let height = self.priorities.len();
        &self.sums[number * height..(number + 1) * height]
    }

    /// Adds the pod with this summary row and these requests to the sums if `more`, otherwise subtracts it. A pod that is leaving, or that
    /// not every preemptor of a higher priority may evict, changes only the number `others`; any other pod changes nothing.
    pub(super) fn count(&mut self, row: &Row, requests: &Resources, more: bool) {
        match row.role {
            Role::Evictable(_) if row.barred_below <= row.priority => self.add(row.priority, requests, more),
            Role::Evictable(_) | Role::Leaves => {
                self.others = if more { self.others + 1 } else { self.others.saturating_sub(1) };
            }
            Role::Stays | Role::Protected | Role::CriticalAddon => {}
        }
    }

    /// Adds a pod and its requests to the sums of this priority and of all higher ones if `more`, otherwise subtracts them.
    fn add(&mut self, priority: i32, requests: &Resources, more: bool) {
        let level = self.priorities.partition_point(|known| *known < priority);
        if self.priorities.get(level) != Some(&priority) {
            self.insert(level, priority);
        }
        let height = self.priorities.len();
        let sign = if more { 1 } else { -1 };
        let add = |sums: &mut Vec<i64>, column: usize, amount: i64| {
            let from = column * height;
            sums[from + level..from + height].iter_mut().for_each(|sum| *sum = sum.wrapping_add(sign * amount));
        };
        add(&mut self.sums, 0, 1);
        for (id, amount) in requests.iter() {
            let known = self.resources.iter().position(|known| *known == id);
            let at = known.unwrap_or_else(|| {
                self.resources.push(id);
                self.sums.resize(self.sums.len() + height, 0);
                self.resources.len() - 1
            });
            add(&mut self.sums, at + 1, clamped(amount));
        }
        let below = level.checked_sub(1).map_or(0, |below| self.sums[below]);
        if self.sums[level] == below {
            self.remove(level);
        }
    }

    /// Inserts a priority at the position `level` of the ascending list, with the sums of the next lower one.
    fn insert(&mut self, level: usize, priority: i32) {
        let height = self.priorities.len();
        let mut sums = Vec::with_capacity((height + 1) * (self.resources.len() + 1));
        for number in 0..=self.resources.len() {
            let column = self.column(number);
            sums.extend_from_slice(&column[..level]);
            sums.push(level.checked_sub(1).map_or(0, |below| column[below]));
            sums.extend_from_slice(&column[level..]);
        }
        self.priorities.insert(level, priority);
        self.sums = sums;
    }

    /// Removes the priority at the position `level` of the ascending list, and its sums; no pod has it any more.
    fn remove(&mut self, level: usize) {
        let height = self.priorities.len();
        let mut at = 0;
        self.sums.retain(|_| {
            at += 1;
            (at - 1) % height != level
        });
        self.priorities.remove(level);
        if self.priorities.is_empty() {
            self.resources.clear();
            self.sums.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{PodIndex, UnitRef};
    use std::collections::BTreeMap;

    fn row(priority: i32, role: Role) -> Row {
        Row { node: Some(0), priority, role, ..Row::default() }
    }

    fn requests(amounts: &[(ResourceId, i128)]) -> Resources {
        Resources::default().with_counted(|_| true, amounts.iter().copied().collect(), BTreeMap::new())
    }

    #[test]
    fn the_sums_are_those_of_the_pods_whatever_was_added_and_removed_before() {
        let goes = |at: usize| Role::Evictable(UnitRef::Pod(PodIndex::try_from(at).unwrap()));
        let pods: Vec<(Row, Resources)> = (0..60)
            .map(|at| {
                let amounts = [(0, 1 + at as i128 % 4), (7 + u16::try_from(at % 3).unwrap(), 1 << (at % 60))];
                (row(i32::try_from(at * 7 % 5).unwrap(), goes(at)), requests(&amounts))
            })
            .collect();
        let mut sums = Evictable::default();
        let mut there: BTreeMap<usize, &(Row, Resources)> = BTreeMap::new();
        for step in 0..500 {
            let at = step * 37 % 60 + step / 60 % 7;
            let Some(pod) = pods.get(at) else { continue };
            let gone = there.remove(&at).is_some();
            if !gone {
                there.insert(at, pod);
            }
            sums.count(&pod.0, &pod.1, !gone);
            for id in [0, 7, 8, 9, 10] {
                for (level, priority) in sums.priorities().iter().enumerate() {
                    let up_to = || there.values().filter(|(row, _)| row.priority <= *priority);
                    let amount: i64 = up_to().map(|(_, requests)| clamped(requests.get(id))).sum();
                    assert_eq!(sums.requests(id).get(level).copied().unwrap_or(0), amount, "{step}: {id}, {priority}");
                    assert_eq!(sums.pods()[level], i64::try_from(up_to().count()).unwrap());
                }
            }
            assert_eq!(sums.priorities().is_empty(), there.is_empty());
        }
    }

    #[test]
    fn pods_that_only_some_preemptors_may_evict_are_not_in_the_sums() {
        let mut sums = Evictable::default();
        let barred = Row { barred_below: 50, ..row(10, Role::Evictable(UnitRef::Pod(1))) };
        for row in [barred, row(10, Role::Leaves)] {
            sums.count(&row, &requests(&[(0, 4)]), true);
            assert_eq!((sums.has_others(), sums.priorities().len()), (true, 0));
            sums.count(&row, &requests(&[(0, 4)]), false);
            assert!(!sums.has_others());
        }
        for role in [Role::Stays, Role::Protected, Role::CriticalAddon] {
            sums.count(&row(10, role), &requests(&[(0, 4)]), true);
            assert_eq!((sums.has_others(), sums.priorities().len()), (false, 0));
        }
    }
}
