//! Classes of members that are equal for every filter with inter-pod constraints. Such filters distinguish pods by the labels that the
//! selectors in question read: the pods of a Job have different indexes, and are in one class nevertheless.

use super::labels::SelectorLabels;
use super::pod_affinity::AffinityTerms;
use crate::model::{AffinityTerm, Cluster, Constraints, Pod, PodIndex, Selector};
use std::collections::{BTreeMap, BTreeSet};

/// The members by class: those of one class are equal for all inter-pod constraints.
pub(super) struct InterPodClasses<'a> {
    /// One member of each class, in the order of the members.
    pub(super) examples: Vec<&'a Pod>,
    /// By member: the number of its class.
    pub(super) of: BTreeMap<PodIndex, usize>,
    /// By class: a number that is equal for classes whose members are matched by the same terms and selectors.
    pub(super) matched: Vec<usize>,
}

impl<'a> InterPodClasses<'a> {
    /// Groups `members` into classes: two members are in one class if they have the same constraints and namespace, and the same affinity
    /// terms in `others` (those of other pods) and the same selectors of the members' own constraints match them.
    pub(super) fn new(cluster: &'a Cluster, members: &[PodIndex], others: &BTreeSet<&'a AffinityTerm>) -> Self {
        let classes: BTreeSet<_> = members.iter().map(|member| cluster.row(*member).class).collect();
        let constraints = || classes.iter().filter_map(|class| Some(&cluster.class(*class)?.constraints));
        let spread: BTreeSet<&Selector> =
            constraints().flat_map(|own| &own.spread).filter_map(|spread| spread.selector.as_ref()).collect();
        let mut terms: BTreeSet<&AffinityTerm> = constraints().flat_map(|own| &own.affinity).collect();
        terms.extend(others);
        let labels =
            SelectorLabels::of(terms.iter().filter_map(|term| term.selector.as_ref()).chain(spread.iter().copied()));
        let terms = AffinityTerms::new(terms.into_iter());
        let seen = |pod: &Pod| {
            let peers: Vec<bool> = spread.iter().map(|selector| selector.matches(&pod.labels)).collect();
            (peers, terms.matching(cluster, pod))
        };
        // Pods with equal values of the labels that selectors read match the same selectors.
        let mut by_labels: BTreeMap<_, usize> = BTreeMap::new();
        let mut looks: BTreeMap<_, usize> = BTreeMap::new();
        let mut known: BTreeMap<(&Constraints, &str, usize), usize> = BTreeMap::new();
        let (mut examples, mut of, mut matched) = (Vec::new(), BTreeMap::new(), Vec::new());
        for index in members {
            let Some(pod) = cluster.pod_at(*index) else { continue };
            let namespace = pod.key.namespace.as_str();
            let look = *by_labels.entry((namespace, labels.of_pod(pod))).or_insert_with(|| {
                let next = looks.len();
                *looks.entry(seen(pod)).or_insert(next)
            });
            let number = *known.entry((&pod.constraints, namespace, look)).or_insert_with(|| {
                examples.push(pod);
                matched.push(look);
                examples.len() - 1
            });
            of.insert(*index, number);
        }
        Self { examples, of, matched }
    }
}
