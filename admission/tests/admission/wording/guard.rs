//! The sentences of the guard. Each is shown as an administrator reads it, and as the users of the namespace of the victim (`web`) and
//! of the preemptor (`default`) do.

use super::{Entry, rejection, warning};
use giveway_admission::wording::guard::{self, RankedPod};
use giveway_crds::wording::{Names, Sentence};
use giveway_planner::model::ObjectKey;

fn victim() -> RankedPod {
    RankedPod { key: ObjectKey::new("web", "api-1"), uid: "uid-api-1".to_owned(), priority: 10 }
}

fn preemptor(priority: i32) -> RankedPod {
    RankedPod { key: ObjectKey::new("default", "batch-1"), uid: "uid-batch-1".to_owned(), priority }
}

/// Returns a sentence for all its readers.
fn read_by_each(sentence: &Sentence) -> [String; 3] {
    let in_namespace = |namespace: &str| format!("{namespace}: {}", Names::default().render(sentence, namespace));
    [format!("administrators: {sentence}"), in_namespace("web"), in_namespace("default")]
}

/// Returns the entry of a function that returns causes, each as the rejection with it.
fn causes<const N: usize>(name: &'static str, causes: [Sentence; N]) -> Entry {
    (name, causes.into_iter().flat_map(|cause| read_by_each(&guard::refused(&victim(), cause))).collect())
}

/// Returns the sentences of the guard.
pub fn entries() -> Vec<Entry> {
    let spent = |allowed: usize, group: Option<(&str, usize)>| {
        guard::budget_spent("web", "web/api", allowed, 1000, group, &preemptor(500))
    };
    vec![
        causes("guard::refused", [Sentence::from("CAUSE")]),
        causes("guard::no_preemptor", [guard::no_preemptor(10, None), guard::no_preemptor(10, Some(&preemptor(5)))]),
        causes(
            "guard::budget_spent",
            [spent(0, None), spent(0, Some(("train", 2))), spent(1, Some(("train", 2))), spent(2, Some(("train", 3)))],
        ),
        causes(
            "guard::too_many_budgets_to_compare",
            [0, 1, 2].map(|count| guard::too_many_budgets_to_compare(count, count)),
        ),
        causes("guard::too_many_budgets_to_update", [0, 1, 2].map(guard::too_many_budgets_to_update)),
        causes("guard::not_announced", [guard::not_announced()]),
        causes("guard::budget_not_updated", [guard::budget_not_updated("web", "api", guard::NO_ANSWER)]),
        warning("guard::NO_ANSWER", [guard::NO_ANSWER.to_owned()]),
        warning("guard::changed_in_between", [0, 1, 2].map(guard::changed_in_between)),
        rejection("guard::unknown_pod", [guard::unknown_pod()]),
        rejection("guard::unread_pod", [guard::unread_pod()]),
    ]
}
