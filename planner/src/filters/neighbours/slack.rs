//! Slack of placed members: how many more pods each topology domain can take before a spread constraint of a member is violated. With it a
//! pod is put back without placing all members again.
//!
//! A member may be placed if its domain then has at most the allowed skew more pods than every other domain. One more pod in a domain
//! reduces the slack of the members there by one, against every other domain, and increases the slack of all others against it by one, in
//! whatever order they were placed.

use super::{CountedPods, DomainNumber, InterPodCounters, NOWHERE};
use crate::filters::Rank;
use crate::limits::MOST_SKEW_DOMAINS;
use crate::model::{Cluster, PodIndex};
use std::ops::Range;

/// By how much the topology spread constraints of placed members are satisfied. The slack of a member against another domain is `maxSkew`
/// less the difference between the pod counts of the member's domain and of the other one. Below 0, the constraint is violated.
pub(crate) struct Slack {
    /// By counter; empty if no member is spread by it, or if it has too many domains.
    left: Vec<LeastSlack>,
    /// Counters, and the rows of the domains to which pods were added.
    moved: Vec<(usize, Range<usize>)>,
}

/// A square table of one counter: for each domain with members (a row) and each other domain, the least slack of a member. The last entry
/// of a row is for a global minimum of 0, which applies if there are fewer domains than `minDomains`.
type LeastSlack = Vec<i64>;

impl Slack {
    /// Returns true if the spread constraints of all placed members still hold after the pods that were put back or removed since the last
    /// call: no slack is below 0 in the domains of these pods.
    pub(in crate::filters) fn holds(&mut self) -> bool {
        let Self { left, moved } = self;
        moved.drain(..).all(|(counter, row)| left[counter][row].iter().all(|left| *left >= 0))
    }
}

impl InterPodCounters<'_> {
    /// Returns the slack (how many more pods a domain may get before a spread constraint is violated) without any member;
    /// [`Self::note_slack`] adds each member.
    pub(in crate::filters) fn slack(&self) -> Slack {
        Slack { left: vec![LeastSlack::new(); self.counts.len()], moved: Vec::new() }
    }

    /// Adds a member's spread constraints to `slack`: how many more pods a domain may get before one of them is violated. The member is
    /// about to be placed on the node at the position `place` among all nodes, which is feasible for it and on which it is not counted yet.
    pub(in crate::filters) fn note_slack(&self, slack: &mut Slack, member: PodIndex, place: Rank) {
        let looker = self.rules.members.get(&member).and_then(|class| self.rules.constraints_by_class[*class].as_ref());
        for (counter, skew, min_domains, itself) in looker.into_iter().flat_map(|looker| &looker.spread) {
            let (over, counts) = (&self.scope[*counter].over, &self.counts[*counter]);
            let Some((domain, domains)) = self.domain(*counter, place).filter(|(_, all)| *all <= MOST_SKEW_DOMAINS)
            else {
                continue;
            };
            let left = &mut slack.left[*counter];
            left.resize(domains * (domains + 1), i64::MAX / 2);
            let row = &mut left[domain * (domains + 1)..(domain + 1) * (domains + 1)];
            let own = i64::try_from(*skew).unwrap_or(i64::MAX / 4)
                - i64::from(counts.at(domain, true))
                - i64::try_from(*itself).unwrap_or(1);
            if counts.domains < *min_domains {
                row[domains] = row[domains].min(own);
                continue;
            }
            for other in (0..domains).filter(|other| *other != domain && over[*other]) {
                row[other] = row[other].min(own + i64::from(counts.there[other]));
            }
        }
    }

    /// Updates the slack (how many more pods a domain may get before a member's spread constraint is violated) after the pod `index` was
    /// put on the node at the position `place` among all nodes (`comes`), or removed from it. Returns true if [`Slack::holds`] then says
    /// whether the placed members remain feasible; false if they must be placed again to find that out.
    pub(in crate::filters) fn shift_slack(
        &self,
        slack: &mut Slack,
        cluster: &Cluster,
        (index, place): (PodIndex, Rank),
        comes: bool,
    ) -> bool {
        let mut sure = true;
        for counter in self.rules.counters_of(cluster, index).iter().map(|number| usize::from(*number)) {
            let rule = &self.rules.rules[counter];
            match rule.pods {
                CountedPods::Peers(..) => {}
                CountedPods::Wanted(_) => {
                    sure = false;
                    continue;
                }
                CountedPods::Unwanted(..) | CountedPods::Guards(_) => continue,
            }
            let Some((domain, domains)) = self.domain(counter, place) else { continue };
            sure &= domains <= MOST_SKEW_DOMAINS;
            let left = &mut slack.left[counter];
            if left.is_empty() || !self.scope[counter].counted[place] {
                continue;
            }
            let one = if comes { 1 } else { -1 };
            let width = domains + 1;
            (0..domains).for_each(|other| left[other * width + domain] += one);
            let row = domain * width..(domain + 1) * width;
            left[row.clone()].iter_mut().for_each(|left| *left -= one);
            slack.moved.push((counter, row));
        }
        sure
    }

    /// Returns the number of the topology domain in which a node is, and how many domains there are, for the topology key of a counter: an
    /// index in [`Rules::rules`](super::Rules). `None` if the node does not have the label. `place` is the position of the node among all
    /// nodes.
    fn domain(&self, counter: usize, place: Rank) -> Option<(usize, usize)> {
        let key = &self.rules.keys[self.rules.rules[counter].key];
        let domain: DomainNumber = key.of[place];
        (domain != NOWHERE).then_some((domain as usize, key.domains))
    }
}

#[cfg(test)]
mod tests {
    use crate::filters::{Nodes, Occupancy};
    use crate::model::{Cluster, ObjectKey, PodIndex};
    use serde_json::{Value, json};

    fn pod(cluster: &mut Cluster, name: &str, app: usize, node: Option<usize>, spread: &Value) -> PodIndex {
        let object = json!({"metadata": {"namespace": "d", "name": name, "labels": {"app": app.to_string()}},
            "spec": {"containers": [], "nodeName": node.map(|n| format!("n{n}")), "topologySpreadConstraints": spread}});
        cluster.upsert_pod(&serde_json::from_value(object).unwrap()).unwrap();
        cluster.pod_index(&ObjectKey::new("d", name)).unwrap()
    }

    #[test]
    fn slack_agrees_with_placing_all_members_again() {
        let mut number: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut below = |bound: u64| -> usize {
            number ^= number << 13;
            number ^= number >> 7;
            number ^= number << 17;
            usize::try_from((number >> 33) % bound).unwrap()
        };
        let mut outcomes = [0, 0];
        for _ in 0..400 {
            let mut cluster = Cluster::default();
            for node in 0..6 {
                let zone = [json!({"zone": (node % 3).to_string()}), json!({})][usize::from(below(8) == 0)].clone();
                let object = json!({"metadata": {"name": format!("n{node}"), "labels": zone},
                    "status": {"allocatable": {"pods": "50"}}});
                cluster.upsert_node(&serde_json::from_value(object).unwrap()).unwrap();
            }
            let spread = json!([{"maxSkew": 1 + below(3), "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                "minDomains": 1 + below(4), "labelSelector": {"matchLabels": {"app": "0"}}}]);
            let members: Vec<PodIndex> =
                (0..5).map(|n| pod(&mut cluster, &format!("m{n}"), below(4) / 3, None, &spread)).collect();
            let bound: Vec<PodIndex> = (0..12)
                .map(|n| pod(&mut cluster, &format!("b{n}"), below(4) / 3, Some(below(6)), &json!([])))
                .collect();
            let waiting = pod(&mut cluster, "w", 0, None, &json!([]));
            let reserved: Vec<(PodIndex, usize)> = (0..below(2)).map(|_| (waiting, below(6))).collect();
            let nodes = Nodes::new(&cluster);
            let mut occupancy = Occupancy::new(&cluster, &nodes, &members, &reserved);
            let stay = below(8);
            occupancy.take(&bound[stay..]);
            let mut placed = Vec::new();
            for member in members {
                let open: Vec<usize> =
                    (0..6).filter(|rank| occupancy.violated_constraint(member, *rank).is_none()).collect();
                if !open.is_empty() {
                    placed.push((member, open[below(open.len() as u64)]));
                    occupancy.add(member, placed[placed.len() - 1].1);
                }
            }
            let mut slack = occupancy.slack_around(&placed).unwrap();
            let mut rest = &bound[stay..];
            while !rest.is_empty() {
                let (pods, others) = rest.split_at((1 + below(3)).min(rest.len()));
                occupancy.put(pods);
                let holds = occupancy.holds_around(&placed);
                assert_eq!(occupancy.shift_slack(&mut slack, pods, true), Some(holds));
                if !holds {
                    occupancy.take(pods);
                    occupancy.shift_slack(&mut slack, pods, false);
                }
                outcomes[usize::from(holds)] += 1;
                rest = others;
            }
        }
        assert!(outcomes.iter().all(|times| *times > 300), "{outcomes:?}");
    }
}
