//! The word to pods whose group does not exist: an event, once for each pod.

use crate::command::{Command, Notice};
use giveway_crds::condition::Reason;
use giveway_planner::SmolStr;
use giveway_planner::model::Pod;
use std::collections::BTreeSet;

/// So many are remembered; then all are forgotten, and told once more.
const MOST: usize = 100_000;

/// The pods that were told, by UID.
#[derive(Debug, Default)]
pub struct Orphans(BTreeSet<SmolStr>);

impl Orphans {
    /// Tells those of these pods that were not told yet.
    pub fn tell<'p>(
        &mut self,
        pods: impl Iterator<Item = &'p Pod>,
        note: impl Fn(&Pod) -> String,
        commands: &mut Vec<Command>,
    ) {
        for pod in pods {
            if !self.0.insert(pod.uid.clone()) {
                continue;
            }
            commands.push(Command::Publish(Notice {
                kind: "Pod".into(),
                key: pod.key.clone(),
                uid: pod.uid.clone(),
                warning: true,
                reason: Reason::PodGroupNotFound,
                action: "Holding".to_owned(),
                note: note(pod).into(),
            }));
        }
        if self.0.len() > MOST {
            self.0.clear();
        }
    }
}
