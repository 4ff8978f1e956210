//! Upper bounds on the scheduling constraints of a preemptor. Each rule is evaluated for thousands of nodes or pods, and a user may write
//! thousands of rules. Giveway does not preempt for a pod above these bounds, so other preemptors are not delayed; kube-scheduler schedules
//! it.

use super::affinity::AffinityTerm;
use super::constraints::{Constraints, NodeTerm};
use super::selector::Selector;
use crate::limits::{
    MOST_AFFINITY_TERMS, MOST_LABEL_RULES, MOST_NODE_RULES, MOST_PORTS, MOST_SPREADS, MOST_TOLERATIONS,
};

impl Constraints {
    /// Returns, as text, the first upper bound of Giveway that the constraints of a pod exceed; `None` if they exceed none.
    pub(crate) fn excess(&self) -> Option<String> {
        let of_node = |term: &NodeTerm| 1 + term.labels.len() + term.fields.len();
        let node_rules = self.node_affinity.iter().flatten().map(of_node).sum::<usize>() + self.node_selector.len();
        let counted: [(usize, usize, &str); 7] = [
            (node_rules, MOST_NODE_RULES, "rules of node affinity"),
            (self.affinity.len(), MOST_AFFINITY_TERMS, "terms of pod affinity"),
            (self.anti_affinity.len(), MOST_AFFINITY_TERMS, "terms of pod anti-affinity"),
            (self.label_rules(), MOST_LABEL_RULES, "rules on labels of other pods"),
            (self.spread.len(), MOST_SPREADS, "topology spread constraints"),
            (self.exclusive.len(), MOST_PORTS, "host ports and claims for one pod"),
            (self.tolerations.len(), MOST_TOLERATIONS, "tolerations"),
        ];
        let (count, most, what) = counted.into_iter().find(|(count, most, _)| count > most)?;
        Some(format!("{count} {what}, more than the {most} that Giveway evaluates"))
    }

    /// Returns the number of selector rules on labels of other pods in the affinity, anti-affinity and topology spread of a pod.
    fn label_rules(&self) -> usize {
        let rules = |selector: &Option<Selector>| selector.as_ref().map_or(0, |selector| selector.keys().count());
        let of_term = |term: &AffinityTerm| rules(&term.selector) + rules(&term.namespaces.selector);
        let terms: usize = self.affinity.iter().chain(&self.anti_affinity).map(of_term).sum();
        terms + self.spread.iter().map(|spread| rules(&spread.selector)).sum::<usize>()
    }
}
