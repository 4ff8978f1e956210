//! Why not enough members fit, and why evictions are needed, as sentences with numbers.

use super::domain::Domain;
use super::refusal::Refusal;
use crate::limits::MOST_BUDGETS_NAMED;
use crate::model::{Cluster, ObjectKey, quantity};
use giveway_crds::wording::{agree, counted, pods};
use std::fmt;

/// Why a preemptor is unschedulable. `Display` is the sentence for a condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shortfall {
    /// Pods that have to be placed together.
    pub needed: usize,
    /// How many of them fit now.
    pub fit_now: usize,
    /// Missing resources of the pods that do not fit.
    pub missing: Vec<Missing>,
    /// Numbers of nodes that are infeasible for reasons other than resources, with the reason; the most frequent first.
    pub refusals: Vec<(usize, Refusal)>,
    /// How many nodes there are.
    pub nodes: usize,
    /// Whether no node that could be used is large enough for one of the pods, even when it is empty.
    pub too_small: bool,
    /// Priority of the preemptor.
    pub priority: i32,
    /// What preemption could do.
    pub help: Help,
    /// Number of members that would fit only with the violation of a budget that is guaranteed against this preemptor (KEP-3280).
    pub withheld: usize,
    /// Those budgets, by name.
    pub guaranteed: Box<[GuaranteedBudget]>,
    /// Number of pods of lower priority that are not evicted because their namespaces are protected, on all nodes.
    pub protected: usize,
    /// Number of pods of lower priority that are not evicted because they are critical add-ons, on all nodes.
    pub critical: usize,
    /// Number of pods of lower priority that this preemptor may not evict, because their threshold is above its priority and the Eviction
    /// API rejects a pod that several budgets select, on all nodes.
    pub barred: usize,
    /// The domain in which most members fit, if a group must be placed within one; the numbers are those of this domain.
    pub domain: Option<NearestDomain>,
    /// True if the search ended early because its effort was used up: see [`Shortfall::is_exhausted`].
    pub cut_short: bool,
    /// What was wrong with a plan that was found and rejected by verification: an error of the planner, for which no pod is evicted.
    pub flaw: Option<Box<str>>,
    /// Unknown requirements of a member, because of which no pod is evicted.
    pub unknown: Option<Box<str>>,
}

/// The domain in which a group lacks least.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearestDomain {
    /// The domain.
    pub domain: Domain,
}

/// A budget that is guaranteed against a preemptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuaranteedBudget {
    /// The budget; empty where its name must not be disclosed.
    pub key: ObjectKey,
    /// How many more of its pods may be evicted now.
    pub allowed: usize,
    /// The priority from which on a preemptor may violate it.
    pub threshold: i32,
}

/// As in "budget web/api, which allows 1 more disruption to preemptors below 5000".
impl fmt::Display for GuaranteedBudget {
    /// Writes the budget, how many more disruptions it allows, and the priority below which that holds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, allowed, threshold } = self;
        if key.name.is_empty() {
            f.write_str("a budget of another namespace")?;
        } else {
            write!(f, "budget {key}")?;
        }
        let allowed = counted(*allowed, "more disruption", "more disruptions");
        write!(f, ", which allows {allowed} to preemptors below {threshold}")
    }
}

/// A resource of which there is too little.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Name of the resource.
    pub resource: String,
    /// What the pods that do not fit ask for, in the scheduler's unit (`cpu` in thousandths).
    pub amount: i128,
    /// Amount that evicting all units of lower priority would free on usable nodes.
    pub freed: i128,
}

/// What preemption could do for a preemptor that does not fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Help {
    /// Its policy is `Never`.
    #[default]
    NotAllowed,
    /// `minCount` members are bound, and pods are evicted for no further one (`spec.preemptFor: MinCount`).
    Optional,
    /// There is no workload of lower priority.
    NoLowerPriority,
    /// There are workloads of lower priority, and none of them may be evicted now.
    NoneEvictable,
    /// There are workloads of lower priority, all of them in protected namespaces, critical add-ons, or barred by several budgets.
    Protected,
    /// After the eviction of all units of lower priority, this many pods would fit.
    NotEnough(usize),
}

impl Shortfall {
    /// Returns the shortfall of a preemptor of this priority that needs `needed` pods: a plan was found, but verification rejected it
    /// because of `flaw`, a sentence.
    pub(crate) fn flawed(needed: usize, priority: i32, flaw: String) -> Self {
        Self { needed, priority, flaw: Some(flaw.into()), ..Self::default() }
    }

    /// Returns how many of the needed members would fit after the eviction of all units that may be evicted; if preemption does not come
    /// into question, how many fit now.
    pub(crate) fn fits_at_most(&self) -> usize {
        match self.help {
            Help::NotEnough(fit) => fit.max(self.fit_now),
            _ => self.fit_now,
        }
    }

    /// Returns true if the search ended early at its limit of effort: it is not known whether the members fit, now or after evictions.
    pub fn is_exhausted(&self) -> bool {
        self.cut_short
    }

    /// Returns true if guaranteed budgets are the reason that there is no plan: without them enough members would fit.
    pub fn is_for_budgets(&self) -> bool {
        self.withheld > 0
    }
}

impl Help {
    /// Returns why no pod is evicted for a preemptor whose policy for this decision is `Never`. `optional` is true if its policy is another
    /// one, but `minCount` members are bound and further ones use free capacity only (`spec.preemptFor: MinCount`).
    pub(crate) fn without_preemption(optional: bool) -> Self {
        if optional { Self::Optional } else { Self::NotAllowed }
    }

    /// Returns why there is no unit to evict for a preemptor of this priority: no pod has a lower priority, all such pods are excluded as
    /// victims, or none of them may be evicted now.
    pub(crate) fn without_victims(cluster: &Cluster, priority: i32) -> Self {
        match cluster.pods_below(priority) {
            0 => Self::NoLowerPriority,
            pods if pods == excluded_below(cluster, priority) => Self::Protected,
            _ => Self::NoneEvictable,
        }
    }
}

/// Returns how many pods with a priority below `priority` are excluded as victims of a preemptor of that priority: those in protected
/// namespaces, critical add-ons, and those that several budgets protect.
fn excluded_below(cluster: &Cluster, priority: i32) -> usize {
    cluster.protected_below(priority) + cluster.critical_below(priority) + cluster.barred_below(priority)
}

impl fmt::Display for Shortfall {
    /// Writes the sentences for a condition: how many members fit, what is missing, and what preemption could do.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(flaw) = &self.flaw {
            return write!(
                f,
                "Giveway made a plan that failed its own verification: {flaw} No pod is evicted. Please report this \
                 with the output of `kubectl giveway snapshot`."
            );
        }
        if self.cut_short {
            return write!(
                f,
                "{} needed. The search reached its limit of effort, so it is not known whether they fit, now or after \
                 evictions. No pod is evicted or ungated for them, and they are planned for again.",
                pods(self.needed)
            );
        }
        write!(f, "{} needed, {} now.", pods(self.needed), counted(self.fit_now, "fits", "fit"))?;
        if self.nodes == 0 {
            f.write_str(" There is no node.")?;
        }
        if !self.missing.is_empty() {
            write!(f, " Missing {}.", self.amounts(|missing| missing.amount, true))?;
        }
        if self.too_small {
            f.write_str(" No node offers as much as one pod asks for.")?;
        }
        if !self.refusals.is_empty() {
            let list: Vec<String> = self.refusals.iter().map(|(n, refusal)| format!("{n} {refusal}")).collect();
            write!(f, " {}.", list.join(", "))?;
        }
        self.write_help(f)?;
        match &self.domain {
            Some(nearest) => write!(f, " These numbers are for {}, where most pods fit.", nearest.domain),
            None => Ok(()),
        }
    }
}

impl Shortfall {
    /// Writes what preemption could do for the preemptor, or which unknown requirements prevent it.
    fn write_help(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(unknown) = &self.unknown {
            return write!(
                f,
                " Where it can run depends on what Giveway does not know: {unknown}. No pod is evicted for it, and it \
                 stays gated until it fits within one domain."
            );
        }
        match self.help {
            Help::NotAllowed => f.write_str(" Its preemptionPolicy is Never, so no pod is evicted for it."),
            Help::Optional => f.write_str(
                " minCount pods are bound: for further pods, which use free capacity only, no pod is evicted \
                 (spec.preemptFor: MinCount).",
            ),
            Help::NoLowerPriority => write!(f, " No workload has a priority below {}.", self.priority),
            Help::NoneEvictable => {
                write!(
                    f,
                    " There are pods below priority {}, but none of them can be evicted now: they are on nodes that \
                     cannot be used, are static or protected, are victims of another plan, or their eviction for this \
                     preemptor was refused a short while ago.",
                    self.priority
                )?;
                self.write_protected(f)
            }
            Help::Protected => self.write_protected(f),
            Help::NotEnough(fit) => {
                self.write_eviction(f, fit)?;
                self.write_protected(f)
            }
        }
    }

    /// Writes what the eviction of all units that may be evicted would free, and that only `fit` members would fit then if these are too
    /// few.
    fn write_eviction(&self, f: &mut fmt::Formatter<'_>, fit: usize) -> fmt::Result {
        let nothing_freed = self.too_small || self.missing.iter().all(|missing| missing.freed == 0);
        if nothing_freed && self.is_for_budgets() {
            return self.write_budgets(f);
        }
        write!(f, " Evicting every workload below priority {} would ", self.priority)?;
        if nothing_freed {
            return f.write_str("not help.");
        }
        write!(f, "free {}", self.amounts(|missing| missing.freed, self.missing.len() > 1))?;
        if fit < self.needed && self.missing.iter().all(|missing| missing.freed >= missing.amount) {
            write!(f, ", but only {fit} would fit then")?;
        }
        f.write_str(".")?;
        self.write_budgets(f)
    }

    /// Writes how many pods of lower priority are not evicted because their namespaces are protected, they are critical add-ons, or several
    /// budgets select them. It names no namespace, because not every reader may know it.
    fn write_protected(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let priority = self.priority;
        if self.protected > 0 {
            let (is, its) =
                (agree(self.protected, "is", "are"), agree(self.protected, "its namespace", "their namespaces"));
            let pods = pods(self.protected);
            write!(f, " {pods} below priority {priority} {is} protected: no pod in {its} is evicted.")?;
        }
        if self.critical > 0 {
            let are = agree(self.critical, "is a critical add-on, which is", "are critical add-ons, which are");
            write!(f, " {} below priority {priority} {are} not evicted.", pods(self.critical))?;
        }
        if self.barred > 0 {
            let (count, are) = (pods(self.barred), agree(self.barred, "is", "are"));
            let (it, its) = (agree(self.barred, "it", "them"), agree(self.barred, "its", "their"));
            write!(
                f,
                " {count} below priority {priority} {are} not evicted: several budgets select {it} or a pod of {its} group, \
                 which the Eviction API rejects, and {its} threshold is above {priority}."
            )?;
        }
        Ok(())
    }

    /// Returns those of the guaranteed budgets that messages and the status name: the first by name, up to a fixed number, because a user
    /// can create thousands for the same pods.
    pub fn named_budgets(&self) -> &[GuaranteedBudget] {
        &self.guaranteed[..self.guaranteed.len().min(MOST_BUDGETS_NAMED)]
    }

    /// Writes how many pods would fit only after evictions that guaranteed budgets do not allow, and names these budgets. Writes nothing if
    /// budgets are not the reason.
    fn write_budgets(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_for_budgets() {
            return Ok(());
        }
        let list: Vec<String> = self.named_budgets().iter().map(ToString::to_string).collect();
        let more = match self.guaranteed.len() - list.len() {
            0 => String::new(),
            more => format!(", or of {more} more"),
        };
        let pods = pods(self.needed);
        write!(
            f,
            " {} of {pods} would fit only after evictions of pods of {}{more}.",
            self.withheld,
            list.join(", or of ")
        )
    }

    /// Returns the missing resources as a list separated by commas, each with the amount that `amount` returns for it, followed by the name
    /// of the resource if `named`.
    fn amounts(&self, amount: impl Fn(&Missing) -> i128, named: bool) -> String {
        let text = |missing: &Missing| {
            let amount = quantity::format(&missing.resource, amount(missing));
            if named { format!("{amount} {}", missing.resource) } else { amount }
        };
        self.missing.iter().map(text).collect::<Vec<_>>().join(", ")
    }
}
