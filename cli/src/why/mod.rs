//! `kubectl giveway why`: one page about a group or pod, or a list of everything that is pending.

mod addon;
mod creation;
mod events;
mod list;
pub(crate) mod now;
mod owned;
mod page;
mod topology;

use crate::answer::PlanAnswer;
use crate::args::{SchedulerArgs, WhyArgs, WhyTarget};
use crate::connect::{Api, ClusterConnection, GetResult, block_on};
use crate::error::CliError;
use crate::output::{self, style};
use crate::role::ChartRole;
use crate::world::{World, preemptor_of};
use creation::{FailedCreation, GroupOwner};
use events::ObservedEvent;
pub(crate) use events::age;
use giveway_crds::PodGroup;
use giveway_crds::kinds;
use giveway_crds::plan::PlanState;
use giveway_planner::{ObjectKey, Preemptor};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
pub(crate) use list::{PendingRow, pending};

/// Everything that the explanation of one group or pod is written from.
pub(crate) struct Evidence {
    /// The requested group or pod.
    pub(crate) target: Preemptor,
    /// The cluster in the planner's model.
    pub(crate) world: World,
    /// The group, if one was requested and exists.
    pub(crate) group: Option<PodGroup>,
    /// The pod, if one was requested and exists.
    pub(crate) pod: Option<Pod>,
    /// Its events, the oldest first.
    pub(crate) events: Vec<ObservedEvent>,
    /// The last pod of the group that could not be created, if the group is not scheduled.
    pub(crate) failed: Option<FailedCreation>,
    /// The planner's decision for the current state.
    pub(crate) answer: Option<PlanAnswer>,
    /// Changes that would change the decision, as sentences.
    pub(crate) changes: Vec<String>,
    /// Current time.
    pub(crate) now: Timestamp,
}

/// Runs `kubectl giveway why`: explains why the target is pending or was evicted; without a target it lists what is pending.
pub(crate) fn run(args: &WhyArgs, connection: &ClusterConnection) -> Result<(), CliError> {
    block_on(async {
        let api = connection.api().await?;
        let scheduler = &args.scheduler;
        let text = match &args.target {
            None => {
                let namespace = (!args.all_namespaces).then(|| api.namespace.clone());
                let mut world = match &namespace {
                    Some(namespace) => World::of_what_may_be_seen(&api, namespace).await?,
                    None => World::of_cluster(&api, |_| true).await?,
                };
                world.configure_schedulers(scheduler);
                world.notes.iter().for_each(|note| output::note(note));
                let waiting = list::waiting(&api, &world, namespace.as_deref()).await?;
                list::text(&waiting, args.output, args.all_namespaces)?
            }
            Some(WhyTarget::One(target)) => page(&api, scheduler, target.in_namespace(&api.namespace), None).await?,
            Some(WhyTarget::GroupOf(row, name)) => {
                let group = ObjectKey::new(&api.namespace, kinds::name::of(name, &[]));
                let owner = GroupOwner { kind: row.kind.to_owned(), name: name.clone() };
                page(&api, scheduler, Preemptor::Group(group), Some(owner)).await?
            }
            Some(WhyTarget::GroupsOf(row, name)) => {
                let mut pages = Vec::new();
                for group in owned::groups(&api, row, name).await? {
                    pages.push(page(&api, scheduler, Preemptor::Group(group), None).await?);
                }
                pages.join("\n")
            }
        };
        output::show(&text)
    })
}

/// Returns the explanation of a group or pod as text. `owner` is the owner of the group if the user named it, also if the group does
/// not exist yet.
async fn page(
    api: &Api,
    scheduler: &SchedulerArgs,
    target: Preemptor,
    owner: Option<GroupOwner>,
) -> Result<String, CliError> {
    Ok(page::text(&gather(api, scheduler, target, owner).await?, style::width()))
}

/// Reads everything that explains a group or pod. `owner` is the owner of the group if the user named it. It is an error if nothing is
/// known of the group or pod.
async fn gather(
    api: &Api,
    scheduler: &SchedulerArgs,
    target: Preemptor,
    owner: Option<GroupOwner>,
) -> Result<Evidence, CliError> {
    let ObjectKey { namespace, name } = target.key().clone();
    let (mut group, mut pod) = (None, None);
    let kind = match &target {
        Preemptor::Group(_) => {
            let path = format!("/apis/scheduling.giveway.dev/v1alpha1/namespaces/{namespace}/podgroups/{name}");
            group = found(api.get::<PodGroup>(&path).await?, &path)?;
            "PodGroup"
        }
        Preemptor::Pod(_) => {
            pod = found(api.get::<Pod>(&format!("/api/v1/namespaces/{namespace}/pods/{name}")).await?, "pod")?;
            "Pod"
        }
    };
    let events = events::of(api, &namespace, kind, &name).await?;
    let mut world = World::of_what_may_be_seen(api, &namespace).await?;
    world.configure_schedulers(scheduler);
    let failed = match &target {
        Preemptor::Group(key) if !group.as_ref().is_some_and(creation::is_scheduled) => {
            let owner = owner.or_else(|| GroupOwner::of(group.as_ref()?));
            creation::last_failed_creation(api, key, owner.as_ref(), &world.cluster).await?
        }
        _ => None,
    };
    let (answer, changes, now) = (None, Vec::new(), Timestamp::now());
    let mut facts = Evidence { target, world, group, pod, events, failed, answer, changes, now };
    let missing = facts.group.is_none() && facts.pod.is_none() && facts.failed.is_none();
    if missing && facts.events.is_empty() && facts.evicting_plans().is_empty() {
        return Err(CliError::Unknown { preemptor: facts.target });
    }
    facts.decide();
    Ok(facts)
}

/// Returns the object that a GET found, or `None` if it does not exist; an error if the user may not read it. `what` names the object
/// for the error.
fn found<T>(got: GetResult<T>, what: &str) -> Result<Option<T>, CliError> {
    match got {
        GetResult::Found(object) => Ok(Some(object)),
        GetResult::Missing => Ok(None),
        GetResult::Forbidden(problem) => {
            Err(CliError::Cluster { what: format!("GET {what}"), problem: ChartRole::Planner.explain(&problem) })
        }
    }
}

/// A stored plan that evicts or evicted pods of the target.
pub(crate) struct EvictingPlan<'a> {
    /// The preemptor, if there is one.
    pub(crate) by: Option<Preemptor>,
    /// The plan.
    pub(crate) plan: &'a giveway_crds::plan::StoredPlan,
    /// Pods of the target that it evicts.
    pub(crate) pods: Vec<&'a str>,
}

impl Evidence {
    /// Returns what the operator decides for: the group of the requested pod, or else the requested group or pod itself.
    pub(crate) fn preemptor(&self) -> Preemptor {
        now::preemptor(&self.world, &self.target)
    }

    /// Returns the stored plans that evict or evicted pods of the requested group or pod, the oldest first. Plans that were only
    /// observed are left out.
    pub(crate) fn evicting_plans(&self) -> Vec<EvictingPlan<'_>> {
        let key = self.target.key();
        let mut found = Vec::new();
        for plan in self.world.plans.values().filter(|plan| plan.state != PlanState::Observed) {
            let by = (!plan.preemptor.uid.is_empty()).then(|| preemptor_of(plan));
            let mut pods = Vec::new();
            for victim in plan.victims.iter().filter(|victim| victim.namespace == key.namespace) {
                let whole = victim.kind == "PodGroup";
                let is_it = match &self.target {
                    Preemptor::Group(_) => whole && victim.name == key.name,
                    Preemptor::Pod(_) => true,
                };
                let mine = victim.pods.iter().map(|pod| pod.name.as_str());
                let mine = mine.filter(|name| matches!(self.target, Preemptor::Group(_)) || *name == key.name);
                if is_it {
                    pods.extend(mine);
                }
            }
            if !pods.is_empty() {
                found.push(EvictingPlan { by, plan, pods });
            }
        }
        found.sort_by(|a, b| a.plan.age_order().cmp(&b.plan.age_order()));
        found
    }

    /// Computes what would be decided for the requested group or pod now, unless a plan is in progress or the user may not see what the
    /// planner needs.
    pub(crate) fn decide(&mut self) {
        let now = now::decide(&self.world, &self.target);
        (self.answer, self.changes) = (now.answer, now.changes);
    }
}
