//! One round of one slot: creates pods and budgets, then preemptors and the concurrent acts of another user.

use super::board::{Board, State};
use super::script::{Filler, Form, PODS_PER_NODE, Rule, Script, Shape};
use futures::future::join_all;
use giveway_crds::PodGroup;
use giveway_crds::keys::LABEL_POD_GROUP;
use giveway_crds::plan::StoredPlan;
use giveway_tests::audit::log::mark_rest;
use giveway_tests::cluster::{
    BudgetBuilder, DeploymentBuilder, GroupBuilder, Kit, PodBuilder, PodHandle, Shaped as _, stored_plans,
};
use giveway_tests::wait::until;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams};
use std::time::{Duration, Instant};

/// Deadline for a round to come to rest.
const TO_REST: Duration = Duration::from_secs(25);
/// How long a round must be at rest before it is checked.
const REST: Duration = Duration::from_millis(500);
/// How long a round waits for a new plan of a pending preemptor for which a victim was already evicted. A new plan normally
/// follows within 2 s, also on a slow machine.
const TO_REPLAN: Duration = Duration::from_secs(10);

/// A namespace and nodes that are used for one round after the other.
pub struct Slot {
    pub number: usize,
    pub kit: Kit,
    pub nodes: Vec<String>,
    pub board: Board,
    /// Client of another user that evicts pods.
    pub other: kube::Client,
}

/// Final state of a preemptor.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// All its pods are bound.
    Bound,
    /// An event reported it as unschedulable, with this message.
    Unschedulable(String),
}

/// Result of a round.
#[derive(Clone, Debug)]
pub struct Played {
    /// Prefix of the names of all objects of the round.
    pub prefix: String,
    pub form: Form,
    pub outcomes: Vec<Outcome>,
    /// For each eviction that another user requested, whether it was accepted.
    pub evictions: Vec<bool>,
    /// Whether a pod became unready during the round.
    pub flipped: bool,
    /// Whether the round came to rest before its deadline. It does not while a partially disrupted group waits for a guaranteed
    /// budget whose allowance another user has used up.
    pub rested: bool,
}

impl Played {
    /// Returns true if the allowance of a budget was reduced by another user's accepted eviction or by a pod that became unready.
    pub fn spent(&self) -> bool {
        self.flipped || self.evictions.contains(&true)
    }
}

impl Slot {
    /// Plays one round, removes its objects and returns its result.
    pub async fn play(&self, round: usize, script: &Script) -> Played {
        let prefix = format!("s{:02}-r{round:02}", self.number);
        let web = self.service(&prefix, script).await;
        let soft = self.fill(&prefix, script).await;
        self.budgets(&prefix, script, soft).await;
        let preemptors = script.preemptors.iter().enumerate();
        let preemptors =
            join_all(preemptors.map(|(index, preemptor)| self.preemptor(format!("{prefix}-p{index}"), *preemptor)));
        let others = async {
            tokio::time::sleep(Duration::from_millis(script.pause)).await;
            let flipped = async {
                match script.flip {
                    Some(pod) => web[pod].set_ready(false).await.is_ok(),
                    None => false,
                }
            };
            let evictions = script.evictions.iter().map(|pod| web[*pod].evict(&self.other));
            tokio::join!(join_all(evictions), flipped)
        };
        let (outcomes, (evictions, flipped)) = tokio::join!(preemptors, others);
        let rested = self.rest().await;
        self.clean(&prefix, script.preemptors.len()).await;
        let evictions = evictions.into_iter().map(|answer| answer.is_ok()).collect();
        Played { prefix, form: script.form, outcomes, evictions, flipped, rested }
    }

    /// Creates the pods with a threshold and waits until they are ready.
    async fn service(&self, prefix: &str, script: &Script) -> Vec<PodHandle> {
        let (class, app) = (format!("guarded-{}", script.threshold), format!("{prefix}-web"));
        let groups = match script.form {
            Form::Group => vec![script.pods],
            Form::Whole => vec![script.pods / 2; 2],
            Form::Bare | Form::Deployment => vec![],
        };
        for (index, size) in groups.iter().enumerate() {
            let group = GroupBuilder::new(self.kit.clone(), &format!("{app}-{index}"), *size).priority(&class);
            let group = if script.form == Form::Whole { group.whole() } else { group };
            group.create_group().await;
        }
        if script.form == Form::Deployment {
            let deployment = DeploymentBuilder::new(self.kit.clone(), &app, script.pods).priority(&class);
            deployment.label("tier", "x").node_selector(super::POOL, &self.kit.namespace).submit().await;
        } else {
            let per_group = groups.first().copied().unwrap_or(script.pods);
            let pods = (0..script.pods).map(|index| {
                let pod = PodBuilder::new(self.kit.clone(), &format!("{app}-pod-{index}")).priority(&class);
                let pod = pod.label("app", &app).on(&self.nodes[index % self.nodes.len()]);
                let pod = if index % 2 == 0 { pod.label("tier", "x") } else { pod };
                let grouped = !groups.is_empty();
                let group = format!("{app}-{}", index / per_group);
                if grouped { pod.label(LABEL_POD_GROUP, &group) } else { pod }.try_create()
            });
            join_all(pods).await.into_iter().for_each(|pod| drop(pod.unwrap()));
        }
        self.board
            .wait(&format!("{} pods of {app} are ready", script.pods), |state| {
                let mine = |pod: &&Pod| pod.metadata.labels.as_ref().and_then(|l| l.get("app")) == Some(&app);
                let pods: Vec<&Pod> = state.ready_in(&self.kit.namespace).filter(mine).collect();
                let all = pods.len() == script.pods;
                all.then(|| pods.into_iter().map(|pod| PodHandle::new(self.kit.clone(), pod)).collect())
            })
            .await
    }

    /// Fills the remaining capacity of the nodes with other pods; returns their number.
    async fn fill(&self, prefix: &str, script: &Script) -> usize {
        let free = |node: &String| {
            let on = |pod: &&Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()) == Some(node);
            PODS_PER_NODE - self.board.look(|state| state.ready_in(&self.kit.namespace).filter(on).count())
        };
        let mut places: Vec<&String> =
            self.nodes.iter().flat_map(|node| std::iter::repeat_n(node, free(node))).collect();
        places.truncate(places.len() - script.free);
        let app = format!("{prefix}-fill");
        let class = match script.filler {
            Filler::Low => "low",
            Filler::Soft => "plain",
            Filler::Top => "top",
        };
        let pods = places.iter().enumerate().map(|(index, node)| {
            let pod = PodBuilder::new(self.kit.clone(), &format!("{app}-{index}")).priority(class);
            pod.label("app", &app).on(node).try_create()
        });
        let pods: Vec<PodHandle> = join_all(pods).await.into_iter().map(Result::unwrap).collect();
        let running = |state: &State| {
            let ready = |pod: &PodHandle| state.pods.get(&pod.uid).is_some_and(giveway_tests::cluster::ready);
            pods.iter().all(ready).then_some(())
        };
        self.board.wait("the pods that fill the nodes are ready", running).await;
        pods.len()
    }

    /// Creates the budgets of the round.
    async fn budgets(&self, prefix: &str, script: &Script, soft: usize) {
        let budget = |name: &str| BudgetBuilder::new(self.kit.clone(), &format!("{prefix}-{name}"));
        let web = budget("web").matching("app", &format!("{prefix}-web"));
        let web = match script.rule {
            Rule::Min(pods) => web.min_available(pods),
            Rule::Max(pods) => web.max_unavailable(pods),
            Rule::MinPercent(percent) => web.min_available_percent(percent),
            Rule::MaxPercent(percent) => web.max_unavailable_percent(percent),
        };
        let web = if script.always_allow { web.unhealthy_pods("AlwaysAllow") } else { web };
        let second = async {
            if let Some(pods) = script.second {
                budget("second").matching("tier", "x").min_available(pods).create().await;
            }
        };
        let soft = async {
            if script.filler == Filler::Soft && soft > 0 {
                let least = i32::try_from(soft).unwrap() - 1;
                budget("soft").matching("app", &format!("{prefix}-fill")).min_available(least).create().await;
            }
        };
        tokio::join!(web.create(), second, soft);
    }

    /// Creates a preemptor and waits until it is bound or reported as unschedulable.
    async fn preemptor(&self, name: String, (priority, shape): (i32, Shape)) -> Outcome {
        let (class, pool) = (format!("urgent-{priority}"), self.kit.namespace.clone());
        let pods = match shape {
            Shape::Pod(cpus) => {
                let pod = PodBuilder::new(self.kit.clone(), &name).priority(&class).cpu(cpus);
                vec![pod.node_selector(super::POOL, &pool).create().await]
            }
            Shape::Gang(size, whole) => {
                let gang = GroupBuilder::new(self.kit.clone(), &name, size).priority(&class);
                let gang = if whole { gang.whole() } else { gang };
                gang.node_selector(super::POOL, &pool).create().await.pods
            }
        };
        let key = (pool, name.clone());
        self.board
            .wait(&format!("{name} is bound or reported as unschedulable"), |state| {
                // A preemptor that was itself preempted afterwards counts as bound.
                let bound = |pod: &PodHandle| state.bound.contains(&pod.uid);
                let all = pods.iter().all(bound).then_some(Outcome::Bound);
                all.or_else(|| state.unschedulable.get(&key).cloned().map(Outcome::Unschedulable))
            })
            .await
    }

    /// Waits until, for [`REST`], no plan of this slot is in flight, no pod is terminating, every budget is observed and no
    /// preemptor with evicted victims is pending. Then writes a mark to the audit log, so that the oracle checks the state before
    /// the clean-up.
    async fn rest(&self) -> bool {
        let namespace = &self.kit.namespace;
        let (start, mut clean) = (Instant::now(), None::<Instant>);
        let what = format!("{namespace} is at rest");
        let rest = until(&what, TO_REST, async || {
            let plans = stored_plans(&self.kit.client).await.map_err(|error| error.to_string())?;
            let here = |plan: &&StoredPlan| plan.state.in_flight() && plan.preemptor.namespace == *namespace;
            let mut busy: Vec<String> = plans.iter().filter(here).map(|plan| plan.id.clone()).collect();
            let terminating = |pod: &&Pod| {
                pod.metadata.namespace.as_ref() == Some(namespace) && pod.metadata.deletion_timestamp.is_some()
            };
            busy.extend(self.board.look(|state| state.pods.values().filter(terminating).map(name).collect::<Vec<_>>()));
            let budgets = self.kit.api::<PodDisruptionBudget>().list(&ListParams::default()).await;
            let new = |budget: &&PodDisruptionBudget| {
                let seen = budget.status.as_ref().and_then(|status| status.observed_generation);
                seen != budget.metadata.generation
            };
            let budgets = budgets.map_err(|error| error.to_string())?.items;
            busy.extend(budgets.iter().filter(new).map(ResourceExt::name_any));
            if start.elapsed() < TO_REPLAN {
                let here = plans.iter().filter(|plan| plan.preemptor.namespace == *namespace);
                let replans = |plan: &&StoredPlan| self.board.look(|state| needs_new_plan(plan, state));
                busy.extend(here.filter(replans).map(|plan| format!("{} needs a new plan", plan.preemptor.name)));
            }
            if !busy.is_empty() {
                clean = None;
                return Err(busy.join(", "));
            }
            let since = *clean.get_or_insert_with(Instant::now);
            if since.elapsed() >= REST { Ok(()) } else { Err(format!("at rest for less than {REST:?}")) }
        });
        let rested = rest.await.is_ok();
        mark_rest(&self.kit.client, namespace).await.unwrap();
        rested
    }

    /// Removes all objects of the round. Preemptors are removed first, so that no pod is evicted for them after the budgets are
    /// deleted.
    async fn clean(&self, prefix: &str, preemptors: usize) {
        let (quick, all) = (DeleteParams::default(), ListParams::default());
        for index in 0..preemptors {
            // Not every preemptor is a group.
            drop(self.kit.api::<PodGroup>().delete(&format!("{prefix}-p{index}"), &quick).await);
        }
        self.remove_pods(&format!("{prefix}-p")).await;
        self.kit.api::<PodDisruptionBudget>().delete_collection(&quick, &all).await.unwrap();
        self.kit.api::<Deployment>().delete_collection(&quick, &all).await.unwrap();
        self.kit.api::<ReplicaSet>().delete_collection(&quick, &all).await.unwrap();
        self.remove_pods("").await;
    }

    /// Deletes the pods with this name prefix, including pods that controllers create meanwhile.
    async fn remove_pods(&self, prefix: &str) {
        let mine = |pod: &&Pod| {
            pod.metadata.namespace.as_deref() == Some(&self.kit.namespace) && name(pod).starts_with(prefix)
        };
        let removed = |state: &State| (!state.pods.values().any(|pod| mine(&pod))).then_some(());
        for _ in 0..60 {
            let pods = self.kit.api::<Pod>().list(&ListParams::default()).await.unwrap().items;
            let delete = async |pod: &Pod| {
                // The pod may no longer exist.
                drop(self.kit.api::<Pod>().delete(&name(pod), &DeleteParams::default()).await);
            };
            join_all(pods.iter().filter(mine).map(delete)).await;
            if self.board.find(Duration::from_secs(2), removed).await.is_some() {
                return;
            }
        }
        let left: Vec<String> = self.board.look(|state| state.pods.values().filter(mine).map(name).collect());
        panic!("these pods of {} were not removed: {}", self.kit.namespace, left.join(", "));
    }
}

/// Returns true if a victim of the plan was removed and a pod of its preemptor is still pending.
fn needs_new_plan(plan: &StoredPlan, state: &State) -> bool {
    let removed = plan.victims.iter().flat_map(|unit| &unit.pods).any(|pod| !state.pods.contains_key(&pod.uid));
    let group = |pod: &Pod| pod.metadata.labels.as_ref().and_then(|labels| labels.get(LABEL_POD_GROUP)).cloned();
    let its = |(uid, pod): &(&String, &Pod)| match plan.preemptor.kind.as_str() {
        "Pod" => **uid == plan.preemptor.uid,
        _ => {
            pod.metadata.namespace.as_ref() == Some(&plan.preemptor.namespace)
                && group(pod).as_ref() == Some(&plan.preemptor.name)
        }
    };
    removed && state.pods.iter().filter(its).any(|(uid, _)| !state.bound.contains(uid))
}

fn name(pod: &Pod) -> String {
    pod.metadata.name.clone().unwrap_or_default()
}
