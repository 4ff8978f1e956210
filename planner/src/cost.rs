//! What a plan costs, and which of two plans is better (design, section 4, step 9).

use std::cmp::{Ordering, Reverse};

/// Cost of a plan. Smaller is better; the fields are compared in the order in which they are declared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Pods whose eviction violates a budget.
    pub budget_violations: usize,
    /// The highest priority among the victims; `None` without victims.
    pub highest_priority: Option<i32>,
    /// Sum of the victim pods' priorities, each offset by 2^31 so that more victims never cost less.
    pub priority_sum: u64,
    /// Pods that are evicted.
    pub victim_pods: usize,
    /// Earliest start among the victims of the highest priority, in ns since the epoch; later is better, and `None`
    /// (unknown) counts as just started.
    pub earliest_start: Option<i64>,
    /// Whole groups that are evicted.
    pub victim_groups: usize,
}

impl Cost {
    fn rank(&self) -> impl Ord {
        (
            self.budget_violations,
            self.highest_priority,
            self.priority_sum,
            self.victim_pods,
            Reverse(self.earliest_start.unwrap_or(i64::MAX)),
            self.victim_groups,
        )
    }
}

impl Ord for Cost {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank()).then_with(|| other.earliest_start.is_none().cmp(&self.earliest_start.is_none()))
    }
}

impl PartialOrd for Cost {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The priority of a victim pod as it enters the sum: never negative.
pub fn offset_priority(priority: i32) -> u64 {
    u64::try_from(i64::from(priority) + (1i64 << 31)).unwrap_or(0)
}
