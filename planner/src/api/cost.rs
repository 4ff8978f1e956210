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

    /// Returns all fields as a tuple in the order of step 9: of two costs, the one with the smaller tuple is cheaper. An unknown start
    /// counts as the latest one.
    fn comparison_key(&self) -> impl Ord {
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
    /// Returns the work that the eviction of one pod loses: the requested `gpus` × `seconds`, or the requested `millicores` × `seconds` if
    /// it requests no GPU. `seconds` is the time since the pod started. Negative amounts count as 0.
    pub(crate) fn of(gpus: i128, millicores: i128, seconds: u64) -> Self {
        let times = |amount: i128| u64::try_from(amount.max(0)).unwrap_or(u64::MAX).saturating_mul(seconds);
        match gpus {
            0 => Self { gpu_seconds: 0, millicore_seconds: times(millicores) },
            gpus => Self { gpu_seconds: times(gpus), millicore_seconds: 0 },
        }
    }

    /// Returns the sum of two amounts of lost work, field by field, each at most `u64::MAX`.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            gpu_seconds: self.gpu_seconds.saturating_add(other.gpu_seconds),
            millicore_seconds: self.millicore_seconds.saturating_add(other.millicore_seconds),
        }
    }
}

impl Ord for Cost {
    /// Compares two costs in the order of step 9; the cheaper one is less.
    fn cmp(&self, other: &Self) -> Ordering {
        self.comparison_key()
            .cmp(&other.comparison_key())
            .then_with(|| other.earliest_start.is_none().cmp(&self.earliest_start.is_none()))
    }
}

impl PartialOrd for Cost {
    /// Compares as [`Ord::cmp`] does; never `None`.
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Cost {
    /// Writes the cost as in `8 pods (2 whole groups) of priority 5 and below, 1 budget violation`.
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

/// A lower bound on the cost of all plans that place the same number of members: the first three fields of [`Cost`], compared in the same
/// order. The default bounds nothing: every plan costs at least that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CostBound {
    /// Pods whose eviction violates a budget.
    pub budget_violations: usize,
    /// The highest priority among the victims.
    pub highest_priority: Option<i32>,
    /// Sum of the victim pods' priorities, as in [`Cost::priority_sum`].
    pub priority_sum: u64,
}

/// The last criterion, in the order of [`Cost`], by which a plan is proven to be the cheapest. It is then the cheapest by the criteria
/// before, too.
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
    /// Returns how far this lower bound on the cost of all plans proves that a plan of the given cost is the cheapest: the last criterion,
    /// in the order of [`Cost`], by which no plan is better. `None` if a plan with fewer budget violations may exist.
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

    /// Returns a lower bound on the number of pods that every plan evicts that has no more budget violations and no higher highest priority
    /// than `cost`; 0 if this bound proves no such number.
    pub fn pods(&self, cost: &Cost) -> usize {
        let heaviest = cost.highest_priority.map_or(0, offset_priority);
        match self.proves(cost) {
            Some(Criterion::PrioritySum | Criterion::HighestPriority) if heaviest > 0 => {
                usize::try_from(self.priority_sum.div_ceil(heaviest)).unwrap_or(usize::MAX).min(cost.victim_pods)
            }
            _ => 0,
        }
    }

    /// Returns what this lower bound proves about a plan of the given cost, in one or two sentences: that no plan is cheaper, or that one
    /// may exist, and how many pods must be evicted at least.
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

    /// Returns a sentence with the number of pods that must be evicted at least ([`Self::pods`]). `None` if this number is 0 or not below
    /// the number of victim pods in `cost`, or if `cost` has no victims.
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
