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
    /// Victim pods that, each alone and after the plan, pass the filters on no other node than their own.
    pub stranded_pods: usize,
    /// The work that the victims lose.
    pub lost_work: LostWork,
    /// Pods that are evicted.
    pub victim_pods: usize,
    /// Earliest start among the victims of the highest priority, in ns since the epoch; later is better, and `None`
    /// (unknown) counts as just started.
    pub earliest_start: Option<i64>,
    /// Whole groups that are evicted.
    pub victim_groups: usize,
}

impl Cost {
    /// Returns the part of the cost that depends only on budgets and priorities, and only grows with more victims. The other criteria
    /// decide between plans for which this part is equal.
    pub fn bound(&self) -> CostBound {
        let Self { budget_violations, highest_priority, priority_sum, .. } = *self;
        CostBound { budget_violations, highest_priority, priority_sum }
    }

    /// Returns a value by which costs are compared: the fields in the order of step 9.
    fn rank(&self) -> impl Ord {
        (
            self.budget_violations,
            self.highest_priority,
            self.priority_sum,
            self.stranded_pods,
            self.lost_work,
            self.victim_pods,
            Reverse(self.earliest_start.unwrap_or(i64::MAX)),
            self.victim_groups,
        )
    }
}

/// Work that evictions lose: what the victims requested, times how long they ran. GPUs are compared first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LostWork {
    /// GPUs × seconds since the start of their pods.
    pub gpu_seconds: u64,
    /// Thousandths of a CPU core × seconds since the start, of pods without a GPU.
    pub millicore_seconds: u64,
}

impl LostWork {
    /// Returns the work that is lost with a pod: its GPUs times `seconds`, the time since it started, or the same of its CPU if it requests
    /// no GPU.
    pub(crate) fn of(gpus: i128, millicores: i128, seconds: u64) -> Self {
        let times = |amount: i128| u64::try_from(amount.max(0)).unwrap_or(u64::MAX).saturating_mul(seconds);
        match gpus {
            0 => Self { gpu_seconds: 0, millicore_seconds: times(millicores) },
            gpus => Self { gpu_seconds: times(gpus), millicore_seconds: 0 },
        }
    }

    /// Returns the work of both together, which does not exceed the largest `u64`.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            gpu_seconds: self.gpu_seconds.saturating_add(other.gpu_seconds),
            millicore_seconds: self.millicore_seconds.saturating_add(other.millicore_seconds),
        }
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

/// A lower bound on the cost of all plans that place as many members, in the order of [`Cost`] without its tie-breaks. The default is no
/// statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CostBound {
    /// Pods whose eviction violates a budget.
    pub budget_violations: usize,
    /// The highest priority among the victims.
    pub highest_priority: Option<i32>,
    /// Sum of the victim pods' priorities, as in [`Cost::priority_sum`].
    pub priority_sum: u64,
}

/// The last criterion by which a plan is proven to be the cheapest; it is so by those before it, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Criterion {
    /// The number of budget violations.
    BudgetViolations,
    /// The highest priority among the victims.
    HighestPriority,
    /// The sum of priorities: no plan is cheaper, apart from tie-breaks.
    PrioritySum,
}

impl Criterion {
    /// Returns the name of the criterion in JSON output, such as `HighestPriority`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BudgetViolations => "BudgetViolations",
            Self::HighestPriority => "HighestPriority",
            Self::PrioritySum => "PrioritySum",
        }
    }
}

impl CostBound {
    /// Returns the criterion up to which a plan of this cost is proven to be the cheapest; `None` if nothing is proven.
    pub fn proves(&self, cost: &Cost) -> Option<Criterion> {
        if self.budget_violations < cost.budget_violations {
            return None;
        }
        if self.highest_priority < cost.highest_priority {
            return Some(Criterion::BudgetViolations);
        }
        let is_least = self.priority_sum >= cost.priority_sum;
        Some(if is_least { Criterion::PrioritySum } else { Criterion::HighestPriority })
    }

    /// Returns how many pods every plan evicts at least that costs no more than this by budget violations and highest priority; 0 if this is
    /// not known.
    pub fn pods(&self, cost: &Cost) -> usize {
        let heaviest = cost.highest_priority.map_or(0, offset_priority);
        match self.proves(cost) {
            Some(Criterion::PrioritySum | Criterion::HighestPriority) if heaviest > 0 => {
                usize::try_from(self.priority_sum.div_ceil(heaviest)).unwrap_or(usize::MAX).min(cost.victim_pods)
            }
            _ => 0,
        }
    }

    /// Returns what is proven about a plan of this cost, as a sentence.
    pub fn sentence(&self, cost: &Cost) -> String {
        if self.proves(cost) == Some(Criterion::PrioritySum) {
            return "Nothing cheaper exists.".to_owned();
        }
        let open = "Nothing cheaper was found; a cheaper plan may exist.";
        match self.necessary(cost) {
            Some(necessary) => format!("{open} {necessary}"),
            None => open.to_owned(),
        }
    }

    /// Returns the least number of victims as a sentence, if it is known and lower than that of a plan of this cost.
    pub fn necessary(&self, cost: &Cost) -> Option<String> {
        let least = self.pods(cost);
        let (highest, is_open) = (cost.highest_priority?, least > 0 && least < cost.victim_pods);
        is_open.then(|| format!("At least {} of priority {highest} and below must be evicted.", pods(least)))
    }
}

/// Returns a victim's priority plus 2^31, as it enters the sum of priorities: never negative.
pub fn offset_priority(priority: i32) -> u64 {
    u64::try_from(i64::from(priority) + (1i64 << 31)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(pods: u64) -> Cost {
        let victim_pods = usize::try_from(pods).unwrap();
        Cost { highest_priority: Some(7), priority_sum: pods * offset_priority(7), victim_pods, ..Cost::default() }
    }

    #[test]
    fn a_bound_proves_a_plan_up_to_the_first_criterion_by_which_another_one_may_be_cheaper() {
        let plan = Cost { budget_violations: 1, ..cost(2036) };
        let bound = |violations, highest, pods| CostBound {
            budget_violations: violations,
            highest_priority: highest,
            priority_sum: pods * offset_priority(7),
        };
        let open = "Nothing cheaper was found; a cheaper plan may exist.";
        let necessary = format!("{open} At least 2001 pods of priority 7 and below must be evicted.");
        for (bound, proven, least, words) in [
            (CostBound::default(), None, 0, open),
            (bound(0, Some(7), 2036), None, 0, open),
            (bound(1, Some(6), 2036), Some(Criterion::BudgetViolations), 0, open),
            (bound(1, Some(7), 2001), Some(Criterion::HighestPriority), 2001, necessary.as_str()),
            (bound(1, Some(7), 2036), Some(Criterion::PrioritySum), 2036, "Nothing cheaper exists."),
            (plan.bound(), Some(Criterion::PrioritySum), 2036, "Nothing cheaper exists."),
        ] {
            assert_eq!((bound.proves(&plan), bound.pods(&plan)), (proven, least), "{bound:?}");
            assert_eq!(bound.sentence(&plan), words, "{bound:?}");
        }
    }

    #[test]
    fn pods_of_lower_priority_may_be_more_than_the_bound_says() {
        let mut bound = cost(3).bound();
        bound.priority_sum -= 1;
        assert_eq!(bound.pods(&cost(5)), 3, "two pods of priority 7 weigh less");
        assert_eq!(CostBound::default().proves(&Cost::default()), Some(Criterion::PrioritySum), "no victims");
    }
}
