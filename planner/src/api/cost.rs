//! What a plan costs, and which of two plans is better (design, section 4, step 9).

use giveway_crds::wording::{counted, pods};
use std::cmp::{Ordering, Reverse};
use std::fmt;

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
    /// Whether it costs no more than another plan up to the number of pods: what is left are tie-breaks. This much of a
    /// cost only grows with more victims.
    pub(crate) fn no_dearer_before_ties(&self, other: &Self) -> bool {
        let main = |cost: &Self| (cost.budget_violations, cost.highest_priority, cost.priority_sum, cost.victim_pods);
        main(self) <= main(other)
    }

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

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&pods(self.victim_pods))?;
        if self.victim_groups > 0 {
            write!(f, " ({})", counted(self.victim_groups, "whole group", "whole groups"))?;
        }
        if let Some(priority) = self.highest_priority {
            write!(f, " of priority {priority} and below")?;
        }
        write!(f, ", {}", counted(self.budget_violations, "budget violation", "budget violations"))
    }
}

/// The priority of a victim pod as it enters the sum: never negative.
pub fn offset_priority(priority: i32) -> u64 {
    u64::try_from(i64::from(priority) + (1i64 << 31)).unwrap_or(0)
}
