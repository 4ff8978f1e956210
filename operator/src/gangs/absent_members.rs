//! Why members of PodGroups do not exist. A pod that the API server rejects, because of a quota or of its class, leaves nothing but an
//! event on its controller, and a controller that waits for one of the gated pods reports nothing at all.
//!
//! The events are read for PodGroups that have lacked members for some seconds: one PodGroup a second, and each of them in longer and
//! longer intervals. What they say is shown in the status of the PodGroup, and a failure also in an event on it.

use crate::clock::Clock;
use crate::messages::command::Command;
use crate::messages::report::CallError;
use crate::model::Model;
use crate::speaker::Speaker;
use crate::speaker::notice::EventNotice;
use crate::views::creation_failure::CreationFailure;
use giveway_crds::condition::Reason;
use giveway_crds::kinds::spark;
use giveway_crds::names::is_subdomain;
use giveway_crds::wording::conditions::pod_group;
use giveway_planner::SmolStr;
use giveway_planner::model::{ObjectKey, Pod};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How long a PodGroup lacks members before the events are read: most pods are created within seconds.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time until the second read for a PodGroup. It doubles with each further read.
const AGAIN: Duration = Duration::from_secs(30);
/// Maximum number of doublings of [`AGAIN`].
const MOST_DOUBLED: u32 = 4;
/// Minimum interval of two reads.
const EVERY: Duration = Duration::from_secs(1);
/// After which time without a new member and without a failure the status says so.
const STALLED: Duration = Duration::from_secs(60);
/// How many seconds before a PodGroup without any member began to lack them a failure may have been reported, to be the reason.
const EARLIER: i64 = 600;
/// Maximum number of controllers of one PodGroup whose events are read.
const CONTROLLERS: usize = 4;

/// The PodGroups that lack members, and why these do not exist.
#[derive(Debug, Default)]
pub struct AbsentMembers {
    groups: BTreeMap<ObjectKey, Absence>,
    /// The same PodGroups, by the time of their next read.
    queue: BTreeSet<(Instant, ObjectKey)>,
    last_read: Option<Instant>,
    /// PodGroups for which another reason is known since the last call of [`AbsentMembers::take_changed_groups`].
    changed_groups: BTreeSet<ObjectKey>,
}

/// A PodGroup that lacks members.
#[derive(Debug)]
struct Absence {
    /// Its UID.
    uid: SmolStr,
    /// Number of its live members.
    live: usize,
    /// Since when it has had this number.
    since: Clock,
    /// Time of the next read.
    due: Instant,
    reads: u32,
    /// Why its members do not exist.
    reason: Option<String>,
}

impl AbsentMembers {
    /// Updates which gangs lack members, after the PodGroups in `touched` changed. For a gang that lacks some, or another number than
    /// before, the search for the reason starts; for others it ends.
    pub fn observe(&mut self, model: &Model, touched: &BTreeSet<ObjectKey>, clock: Clock) {
        for key in touched {
            let lacking = lacking(model, key);
            let is_known = self.groups.get(key).map(|known| (&known.uid, known.live)) == lacking;
            if is_known {
                continue;
            }
            if let Some(known) = self.groups.remove(key) {
                self.queue.remove(&(known.due, key.clone()));
            }
            if let Some((uid, live)) = lacking {
                let due = clock.now + PATIENCE;
                self.queue.insert((due, key.clone()));
                let absence = Absence { uid: uid.clone(), live, since: clock, due, reads: 0, reason: None };
                self.groups.insert(key.clone(), absence);
            }
        }
    }

    /// Returns the next call, which reads the events about pods of a PodGroup that could not be created; `None` if none is due at `now`.
    pub fn pass(&mut self, model: &Model, now: Instant) -> Option<Command> {
        if self.last_read.is_some_and(|last| now.duration_since(last) < EVERY) {
            return None;
        }
        let (_, key) = self.queue.first().filter(|(due, _)| *due <= now)?.clone();
        let absence = self.groups.get_mut(&key)?;
        self.queue.remove(&(absence.due, key.clone()));
        // A read without an answer is repeated at the same time.
        absence.due = now + AGAIN * (1 << absence.reads.min(MOST_DOUBLED));
        absence.reads += 1;
        self.queue.insert((absence.due, key.clone()));
        self.last_read = Some(now);
        let controllers = controllers(model, &key);
        Some(Command::ReadFailures { group: key, controllers })
    }

    /// Handles the answer to the read for the PodGroup `key`: `None` if no failure was found. Returns the event to publish on the PodGroup,
    /// if a pod could not be created and no such event was published lately.
    pub fn answered(
        &mut self,
        key: &ObjectKey,
        result: Result<Option<CreationFailure>, CallError>,
        model: &Model,
        speaker: &mut Speaker,
        now: Instant,
    ) -> Option<EventNotice> {
        let absence = self.groups.get_mut(key)?;
        let found = match result {
            Ok(found) => found.filter(|failure| failure.at >= absence.earliest_failure(model, key)),
            Err(error) => {
                tracing::debug!(%key, %error, "the events about pods that could not be created cannot be read");
                return None;
            }
        };
        let waited = now.saturating_duration_since(absence.since.now);
        let reason = match &found {
            Some(failure) => Some(failure.sentence()),
            None if waited >= STALLED => stalled(model, key),
            None => None,
        };
        if absence.reason != reason {
            absence.reason.clone_from(&reason);
            self.changed_groups.insert(key.clone());
        }
        let note = found?.sentence();
        let about = (key.clone(), absence.uid.clone());
        let is_due = speaker.is_due(&absence.uid, "absent members", now);
        is_due.then(|| EventNotice::on("PodGroup", about, true, Reason::WaitingForPods, "Creating", note))
    }

    /// Returns why members of a PodGroup do not exist, as sentences; `None` if that is not known, or none is missing.
    pub fn reason(&self, key: &ObjectKey) -> Option<&str> {
        self.groups.get(key)?.reason.as_deref()
    }

    /// Returns the PodGroups whose [reason](Self::reason) has changed since the last call of this function.
    pub fn take_changed_groups(&mut self) -> BTreeSet<ObjectKey> {
        std::mem::take(&mut self.changed_groups)
    }
}

impl Absence {
    /// Returns since when a failed creation of a pod can be the reason, in seconds since the epoch: since the last live member was created,
    /// or, without a live member, since ten minutes before the PodGroup began to lack them.
    fn earliest_failure(&self, model: &Model, key: &ObjectKey) -> i64 {
        let created = live(model, key).filter_map(|pod| pod.created).max();
        created.map_or(self.since.epoch_seconds - EARLIER, |nanoseconds| nanoseconds / 1_000_000_000)
    }
}

/// Returns the live members of a PodGroup: those that have not finished and are not terminating.
fn live<'m>(model: &'m Model, key: &ObjectKey) -> impl Iterator<Item = &'m Pod> + use<'m> {
    model.cluster.members(key).filter(|pod| pod.live())
}

/// Returns the UID of a PodGroup and the number of its live members, if it is a gang with fewer than it needs; `None` for other PodGroups.
fn lacking<'m>(model: &'m Model, key: &ObjectKey) -> Option<(&'m SmolStr, usize)> {
    let record = model.groups.get(key).filter(|record| !record.deleting)?;
    let group = model.cluster.group(key)?;
    let live = live(model, key).count();
    (live + model.cluster.finished(group) < group.min_count?).then_some((&record.uid, live))
}

/// Returns the names of the objects whose events are read: the controllers of some members, and an object with the name of the PodGroup,
/// which its Job or StatefulSet has, too.
fn controllers(model: &Model, key: &ObjectKey) -> Vec<SmolStr> {
    let of_members = live(model, key).filter_map(|pod| Some(SmolStr::new(&pod.owner.as_ref()?.name)));
    let mut names: BTreeSet<SmolStr> = of_members.filter(|name| is_subdomain(name)).take(CONTROLLERS - 1).collect();
    names.insert(key.name.clone());
    names.into_iter().collect()
}

/// Returns the sentence for a PodGroup for which no more pods are created, and no failure was reported: a member must run first, which is
/// gated. `None` if no member is gated.
fn stalled(model: &Model, key: &ObjectKey) -> Option<String> {
    let gated = || live(model, key).filter(|pod| pod.gated);
    if let Some(driver) = gated().find(|pod| spark::is_driver(pod.labels.get(spark::LABEL_ROLE))) {
        return Some(pod_group::spark_driver_is_member(&driver.key.name));
    }
    gated().next().map(|_| pod_group::no_further_member_created().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestPod, World};

    struct Scene {
        world: World,
        absent: AbsentMembers,
        speaker: Speaker,
        clock: Clock,
    }

    impl Scene {
        /// A gang of three pods, of which Job `train` has created two, 100 s after the epoch.
        fn new() -> Self {
            let mut world = World::new();
            world.node("n1", 4).group("g", 3, 10, "PodGroup");
            for name in ["a", "b"] {
                world.pod(TestPod::new(name, 10).of("g").gated().of_job("train").created(100));
            }
            let clock = Clock { now: Instant::now(), epoch_seconds: 100 };
            Self { world, absent: AbsentMembers::default(), speaker: Speaker::default(), clock }
        }

        /// Lets some seconds pass, and returns the controllers whose events are read then.
        fn after(&mut self, seconds: u32) -> Option<Vec<SmolStr>> {
            self.clock.now += Duration::from_secs(seconds.into());
            self.clock.epoch_seconds += i64::from(seconds);
            let touched = std::mem::take(&mut self.world.model.touched);
            self.absent.observe(&self.world.model, &touched, self.clock);
            match self.absent.pass(&self.world.model, self.clock.now)? {
                Command::ReadFailures { controllers, .. } => Some(controllers),
                other => panic!("{other:?}"),
            }
        }

        /// Answers the read with a failure at this second. Returns the event.
        fn answer(&mut self, at: Option<i64>) -> Option<String> {
            let failure =
                |at: i64| CreationFailure { controller: "Job train".to_owned(), message: "no quota".to_owned(), at };
            let (key, model) = (self.world.key("g"), &self.world.model);
            let notice = self.absent.answered(&key, Ok(at.map(failure)), model, &mut self.speaker, self.clock.now)?;
            Some(notice.note.to_string())
        }

        fn reason(&self) -> Option<&str> {
            self.absent.reason(&self.world.key("g"))
        }
    }

    const FAILURE: &str = "Job train could not create a pod: no quota";

    #[test]
    fn the_failure_to_create_a_member_is_reported_until_the_member_is_created() {
        let mut scene = Scene::new();
        assert_eq!(scene.after(0), None, "most pods are created within seconds");
        assert_eq!(scene.after(10).unwrap(), ["g", "train"]);
        assert_eq!(scene.answer(Some(105)).as_deref(), Some(FAILURE));
        assert_eq!(scene.reason(), Some(FAILURE));
        assert_eq!(scene.absent.take_changed_groups().len(), 1);
        assert_eq!((scene.after(29), scene.after(1).map(|names| names.len())), (None, Some(2)));
        assert_eq!(scene.answer(Some(130)), None, "the same event at most every five minutes");
        assert!(scene.absent.take_changed_groups().is_empty(), "it says the same");
        scene.world.pod(TestPod::new("c", 10).of("g").gated().of_job("train").created(150));
        assert_eq!((scene.after(60), scene.reason()), (None, None), "all exist");
        assert!(scene.absent.queue.is_empty());
    }

    #[test]
    fn an_event_before_the_creation_of_the_last_member_is_not_the_reason() {
        let mut scene = Scene::new();
        scene.after(0);
        scene.after(10);
        assert_eq!((scene.answer(Some(99)), scene.reason()), (None, None));
        assert_eq!((scene.answer(Some(100)).as_deref(), scene.reason()), (Some(FAILURE), Some(FAILURE)));
    }

    #[test]
    fn a_controller_that_waits_for_a_gated_pod_is_reported_after_a_minute() {
        let mut scene = Scene::new();
        scene.after(0);
        scene.after(10);
        assert_eq!((scene.answer(None), scene.reason()), (None, None));
        scene.after(50);
        assert_eq!(scene.answer(None), None, "no failure, no event");
        assert!(
            scene.reason().unwrap().starts_with("No other pod has been created for a minute"),
            "{:?}",
            scene.reason()
        );
        scene.world.remove_pod("b");
        assert_eq!((scene.after(0), scene.reason()), (None, None), "something changed");
        scene.world.pod(TestPod::new("a", 10).of("g").gated().labelled(spark::LABEL_ROLE, "driver"));
        scene.after(60);
        scene.answer(None);
        assert!(
            scene.reason().unwrap().starts_with("Pod a is the driver of a Spark application"),
            "{:?}",
            scene.reason()
        );
    }

    #[test]
    fn reads_are_few_and_become_rarer() {
        let mut scene = Scene::new();
        for number in 0..100 {
            scene.world.group(&format!("g{number}"), 2, 10, "Pod");
        }
        scene.after(0);
        let reads = (0..600).filter(|_| scene.after(1).is_some()).count();
        assert!((400..=600).contains(&reads), "at most one a second: {reads}");
        let mut scene = Scene::new();
        scene.after(0);
        let reads: Vec<u32> = (1..=600).filter(|_| scene.after(1).is_some()).collect();
        assert_eq!(reads, [10, 40, 100, 220, 460]);
    }
}
