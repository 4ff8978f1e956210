//! Keeps the state up to date: applies the changes of all kinds to it, at once, and computes what depends on them a few times a second.

use super::follow::{FollowedChange, KindFollower};
use super::state::{Snapshot, State, now};
use crate::connect::Api;
use crate::error::CliError;
use crate::live::{self, Gaps, UnreadKinds};
use crate::world::{World, key_in};
use futures::stream::{self, LocalBoxStream, SelectAll};
use futures::{FutureExt as _, StreamExt as _};
use giveway_cluster::objects::KindFields;
use giveway_cluster::objects::kinds::{IN_SNAPSHOTS, NATIVE_GROUPS};
use giveway_cluster::watch::permitted::PermittedScope;
use giveway_planner::ObjectKey;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::{Instant, interval, sleep_until};

/// Shortest time between two revisions.
const PERIOD: Duration = Duration::from_millis(250);

/// Time between two confirmations that the state is that of the cluster.
const CONFIRMATION: Duration = Duration::from_secs(1);

/// Maximum number of changes that are applied before what shows the state has its turn.
const AT_ONCE: usize = 500;

/// A change, with the number of its kind.
type KindChange = (usize, FollowedChange);

/// Follows the kinds that the user may read.
pub(crate) struct Follower {
    changes: SelectAll<LocalBoxStream<'static, KindChange>>,
    kinds: Vec<FollowedKind>,
    namespace: String,
}

/// How much is known of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coverage {
    /// The first list is not complete.
    Unknown,
    /// The objects in this scope.
    Listed(PermittedScope),
    /// The cluster does not have the kind.
    Missing,
}

/// What is known of a kind.
struct FollowedKind {
    row: &'static KindFields,
    coverage: Coverage,
    is_unwatched: bool,
    /// Why it cannot be read now.
    problem: Option<String>,
    /// Keys of the objects in the world.
    known: BTreeSet<ObjectKey>,
    /// Keys of the objects of the list in progress.
    listed: BTreeSet<ObjectKey>,
}

impl FollowedKind {
    /// Creates the state of a kind of which nothing was read yet. `row` describes the kind.
    fn new(row: &'static KindFields) -> Self {
        let (known, listed) = (BTreeSet::new(), BTreeSet::new());
        Self { row, coverage: Coverage::Unknown, is_unwatched: false, problem: None, known, listed }
    }

    /// Applies a change of this kind to the objects in `world`. Returns true if there is something new to show.
    fn apply(&mut self, change: FollowedChange, world: &mut World) -> bool {
        match change {
            FollowedChange::Started => {
                self.listed.clear();
                false
            }
            FollowedChange::Listed(object) => {
                let key = key_in(&object);
                self.known.insert(key.clone());
                self.listed.insert(key);
                world.put(&object);
                true
            }
            FollowedChange::Complete(scope) => {
                self.end_list(Coverage::Listed(scope), world);
                true
            }
            FollowedChange::Applied(object) => {
                self.known.insert(key_in(&object));
                world.put(&object);
                true
            }
            FollowedChange::Deleted(object) => {
                let key = key_in(&object);
                self.known.remove(&key);
                world.remove(self.row, &key);
                true
            }
            FollowedChange::Forbidden | FollowedChange::Missing => {
                self.listed.clear();
                let is_forbidden = matches!(change, FollowedChange::Forbidden);
                let coverage = if is_forbidden { Coverage::Listed(PermittedScope::Nothing) } else { Coverage::Missing };
                let is_new = self.coverage != coverage || self.problem.is_some();
                self.is_unwatched = false;
                self.end_list(coverage, world);
                is_new
            }
            FollowedChange::Unwatched => !std::mem::replace(&mut self.is_unwatched, true),
            FollowedChange::Restored => {
                let was_unwatched = std::mem::take(&mut self.is_unwatched);
                self.problem.take().is_some() || was_unwatched
            }
            FollowedChange::Failed(error) => {
                let problem = Some(error.to_string());
                let is_new = self.problem != problem;
                self.problem = problem;
                is_new
            }
        }
    }

    /// Removes the objects of this kind that are not in the list that is complete now, and records how much of the kind is known.
    fn end_list(&mut self, coverage: Coverage, world: &mut World) {
        for key in self.known.difference(&self.listed) {
            world.remove(self.row, key);
        }
        self.known = std::mem::take(&mut self.listed);
        (self.coverage, self.problem) = (coverage, None);
    }
}

impl Follower {
    /// Creates the follower of all kinds that the planner needs.
    fn new(api: &Api) -> Self {
        let rows = || IN_SNAPSHOTS.iter().copied();
        let mut followers: Vec<KindFollower> = rows().map(|row| KindFollower::of(api, row)).collect();
        let mut kinds: Vec<FollowedKind> = rows().map(FollowedKind::new).collect();
        let [native, ..] = &NATIVE_GROUPS;
        followers.push(KindFollower::of_native_groups(api, native));
        kinds.push(FollowedKind::new(native));
        let changes = followers.into_iter().enumerate().map(|(number, follower)| {
            let next = move |mut follower: KindFollower| async move {
                let change = follower.next().await;
                Some(((number, change), follower))
            };
            stream::unfold(follower, next).boxed_local()
        });
        Self { changes: stream::select_all(changes), kinds, namespace: api.namespace.clone() }
    }

    /// Reads the cluster as far as the user may. Returns its state, and the follower that applies later changes to the state.
    ///
    /// # Errors
    /// The first list of a kind fails for another reason than a missing right.
    pub(crate) async fn start(api: &Api) -> Result<(State, Self), CliError> {
        let (mut world, mut follower) = (World::of_live_cluster(), Self::new(api));
        follower.read_first_lists(&mut world).await?;
        let snapshot = Snapshot::new(api.namespace.clone(), world, follower.gaps());
        Ok((State::new(snapshot, now()), follower))
    }

    /// Applies changes to `world` until each kind was listed once, or is known to be missing or forbidden.
    async fn read_first_lists(&mut self, world: &mut World) -> Result<(), CliError> {
        while self.kinds.iter().any(|kind| kind.coverage == Coverage::Unknown) {
            match self.changes.next().await {
                // Only what is not known yet must be read now: the watch of a kind that was listed is retried.
                Some((number, FollowedChange::Failed(error))) if self.is_unknown(number) => return Err(error),
                Some(change) => {
                    self.apply(change, world);
                }
                None => break,
            }
        }
        Ok(())
    }

    /// Returns true if the first list of a kind is not complete. `number` is the index of the kind.
    fn is_unknown(&self, number: usize) -> bool {
        self.kinds.get(number).is_some_and(|kind| kind.coverage == Coverage::Unknown)
    }

    /// Applies all changes of the cluster to `state` as they arrive, and never ends.
    pub(crate) async fn follow(mut self, state: &State) {
        let mut last = Instant::now();
        // The first state does not say that a watch has failed.
        let mut due = self.problem().map(|_| last);
        let mut confirmation = interval(CONFIRMATION);
        loop {
            tokio::select! {
                Some(change) = self.changes.next() => {
                    let mut is_new = false;
                    state.change(|world| is_new = self.apply_all(change, world)).await;
                    if is_new && due.is_none() {
                        due = Some(last + PERIOD);
                    }
                }
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    state.publish(self.gaps(), self.problem()).await;
                    (last, due) = (Instant::now(), None);
                }
                _ = confirmation.tick() => state.confirm(),
            }
        }
    }

    /// Applies a change, and those that have arrived with it, to the objects in `world`. Returns true if there is something new to
    /// show.
    fn apply_all(&mut self, first: KindChange, world: &mut World) -> bool {
        let mut is_new = self.apply(first, world);
        for _ in 1..AT_ONCE {
            let Some(Some(change)) = self.changes.next().now_or_never() else { break };
            is_new |= self.apply(change, world);
        }
        is_new
    }

    /// Applies a change to the objects in `world`. `number` is the index of its kind. Returns true if there is something new to show.
    fn apply(&mut self, (number, change): KindChange, world: &mut World) -> bool {
        self.kinds.get_mut(number).is_some_and(|kind| kind.apply(change, world))
    }

    /// Returns what the state lacks: the kinds that the user may not read or watch, and those of Giveway that are not installed.
    fn gaps(&self) -> Gaps {
        let (mut notes, mut unseen) = (Vec::new(), UnreadKinds::default());
        for kind in &self.kinds {
            match kind.coverage {
                Coverage::Listed(PermittedScope::Namespace) => unseen.elsewhere.push(live::plural(kind.row)),
                Coverage::Listed(PermittedScope::Nothing) => unseen.everywhere.push(live::plural(kind.row)),
                Coverage::Missing if kind.row.is_own() => notes.push(live::not_installed(kind.row)),
                Coverage::Listed(PermittedScope::Cluster) | Coverage::Missing | Coverage::Unknown => {}
            }
            if kind.is_unwatched {
                unseen.unwatched.push(live::plural(kind.row));
            }
        }
        notes.extend(unseen.notes(&self.namespace));
        Gaps { notes, blind: unseen.hides_used_capacity() }
    }

    /// Returns the error why a kind cannot be read now; `None` if all can be read.
    fn problem(&self) -> Option<String> {
        self.kinds.iter().find_map(|kind| kind.problem.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;
    use giveway_cluster::objects::kinds::{NODE, POD, POD_GROUP};
    use serde_json::{Value, json};
    use tokio::time::timeout;

    /// Returns a follower of Nodes, Pods and PodGroups that gets these changes.
    fn follower(changes: Vec<KindChange>) -> Follower {
        let changes = stream::iter(changes).chain(stream::pending()).boxed_local();
        let kinds = [&NODE, &POD, &POD_GROUP].map(FollowedKind::new).into();
        Follower { changes: stream::select_all([changes]), kinds, namespace: "team".to_owned() }
    }

    fn error() -> FollowedChange {
        FollowedChange::Failed(CliError::Cluster { what: "GET /api/v1/pods".to_owned(), problem: "refused".to_owned() })
    }

    fn pod(name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "ml", "uid": format!("u-{name}")},
            "spec": {"containers": [{"name": "c"}]}, "status": {"phase": "Pending"}})
    }

    /// Returns the problem of the next revision after this one.
    async fn problem_after(state: &State, known: u64) -> Option<String> {
        state.changed(known, Duration::from_secs(60)).await;
        state.revision().problem
    }

    /// Applies changes of Pods, and returns whether the last one is new to what shows them, with the names of the pods.
    fn applied(kind: &mut FollowedKind, world: &mut World, changes: Vec<FollowedChange>) -> (bool, Vec<String>) {
        let is_new = changes.into_iter().fold(false, |_, change| kind.apply(change, world));
        (is_new, world.cluster.pods().map(|pod| pod.key.name.to_string()).collect())
    }

    #[test]
    fn a_list_replaces_what_was_known_when_it_is_complete_and_a_watch_changes_it() {
        let (mut kind, mut world) = (FollowedKind::new(&POD), World::of_live_cluster());
        let listed = |names: &[&str]| {
            let mut changes = vec![FollowedChange::Started];
            changes.extend(names.iter().map(|name| FollowedChange::Listed(pod(name))));
            changes
        };
        let complete = || FollowedChange::Complete(PermittedScope::Cluster);
        let mut apply = |changes: Vec<FollowedChange>| applied(&mut kind, &mut world, changes).1;
        assert_eq!(apply(listed(&["a", "b"])), ["a", "b"]);
        assert_eq!(apply(vec![complete(), FollowedChange::Applied(pod("c"))]), ["a", "b", "c"]);
        assert_eq!(apply(vec![FollowedChange::Deleted(pod("a"))]), ["b", "c"]);
        // This list breaks off, and `d` is deleted before the next one.
        assert_eq!(apply(listed(&["c", "d"])), ["b", "c", "d"], "until a list is complete nothing is removed");
        assert_eq!(apply(listed(&["c"])), ["b", "c", "d"]);
        assert_eq!(apply(vec![complete()]), ["c"]);
    }

    #[test]
    fn what_may_not_be_read_any_more_is_not_shown_and_what_cannot_be_read_now_stays() {
        let (mut kind, mut world) = (FollowedKind::new(&POD), World::of_live_cluster());
        let first = vec![
            FollowedChange::Started,
            FollowedChange::Listed(pod("a")),
            FollowedChange::Complete(PermittedScope::Cluster),
        ];
        applied(&mut kind, &mut world, first);
        let mut apply = |change: FollowedChange| applied(&mut kind, &mut world, vec![change]);
        assert_eq!(apply(error()), (true, vec!["a".to_owned()]));
        assert!(!apply(error()).0, "the same problem is not new");
        assert_eq!(apply(FollowedChange::Restored), (true, vec!["a".to_owned()]));
        assert!(
            apply(FollowedChange::Unwatched).0
                && !apply(FollowedChange::Unwatched).0
                && apply(FollowedChange::Restored).0
        );
        assert_eq!(apply(FollowedChange::Forbidden), (true, Vec::new()));
        assert!(!apply(FollowedChange::Forbidden).0, "it is requested again every few seconds");
    }

    #[tokio::test]
    async fn the_first_state_has_every_kind_and_says_what_is_hidden_or_missing() {
        let mut all = follower(vec![
            (1, FollowedChange::Started),
            (0, FollowedChange::Forbidden),
            (1, FollowedChange::Listed(pod("a"))),
            (2, FollowedChange::Missing),
            (1, FollowedChange::Complete(PermittedScope::Namespace)),
            (1, FollowedChange::Listed(pod("late"))),
        ]);
        let mut world = World::of_live_cluster();
        all.read_first_lists(&mut world).await.unwrap();
        assert_eq!(world.cluster.pods().count(), 1);
        let gaps = all.gaps();
        assert!(gaps.blind);
        assert_eq!(
            gaps.notes,
            [
                "The cluster has no PodGroups: Giveway is not installed.",
                "You may not list Pods of all namespaces, so only those of namespace team are known.",
                "You may not list Nodes, so none is known. The chart's ClusterRole giveway-planner allows it.",
            ]
        );
        let failed = follower(vec![(0, FollowedChange::Forbidden), (1, error())])
            .read_first_lists(&mut world)
            .await
            .unwrap_err();
        assert_eq!(failed.to_string(), "GET /api/v1/pods: refused");
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_fails_during_the_first_lists_is_a_problem_of_the_second_state() {
        let (listed, state) = (|| FollowedChange::Complete(PermittedScope::Cluster), samples::state());
        let mut all =
            follower(vec![(1, FollowedChange::Started), (1, listed()), (1, error()), (0, listed()), (2, listed())]);
        all.read_first_lists(&mut World::of_live_cluster()).await.unwrap();
        tokio::select! {
            () = all.follow(&state) => panic!("it follows for ever"),
            problem = problem_after(&state, 1) => assert_eq!(problem.as_deref(), Some("GET /api/v1/pods: refused")),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn changes_are_shown_soon_and_together() {
        let state = samples::state();
        let changes = (0..2000).map(|number| (1, FollowedChange::Applied(pod(&format!("p{number:04}")))));
        let all = follower(changes.collect());
        let wait = async {
            state.changed(1, Duration::from_secs(60)).await;
            let snapshot = state.snapshot().await;
            (
                state.revision().revision,
                snapshot.world.cluster.pods().filter(|pod| pod.key.name.starts_with('p')).count(),
            )
        };
        tokio::select! {
            () = all.follow(&state) => panic!("it follows for ever"),
            shown = wait => assert_eq!(shown, (2, 2000), "one revision for all changes of a moment"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_shown_and_its_end() {
        let state = samples::state();
        let all = follower(vec![(1, error())]);
        let mut later = follower(vec![(1, FollowedChange::Restored)]);
        tokio::select! {
            () = all.follow(&state) => panic!("it follows for ever"),
            problem = problem_after(&state, 1) => assert_eq!(problem.as_deref(), Some("GET /api/v1/pods: refused")),
        }
        later.kinds[1].problem = Some("GET /api/v1/pods: refused".to_owned());
        // A problem that is known from the beginning is shown at once, perhaps before its end is read.
        let ended = async { while problem_after(&state, state.revision().revision).await.is_some() {} };
        tokio::select! {
            () = later.follow(&state) => panic!("it follows for ever"),
            ended = timeout(Duration::from_secs(60), ended) => ended.expect("the end of the problem is shown"),
        }
    }
}
