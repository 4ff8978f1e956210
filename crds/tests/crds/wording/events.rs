//! Events.

use super::{Page, at, both, key, preemptor, rack};
use giveway_crds::mode::{Mode, UnknownMode};
use giveway_crds::wording::conditions::progress::limit_reached;
use giveway_crds::wording::events::{self, CorrectedPod};

pub(super) fn add(page: &mut Page) {
    page.file("events.rs");
    plans(page);
    missing_groups(page);
    refusals(page);
    others(page);
}

fn plans(page: &mut Page) {
    let why = "a plan with evictions has a victim and places a pod";
    page.says_without_zero("evicting", why, [events::evicting(1, 2), events::evicting(2, 1)]);
    page.says_without_zero(
        "members_start",
        "a plan places a pod",
        [events::members_start(1, None), events::members_start(2, None), events::members_start(2, Some(&rack()))],
    );
}

fn missing_groups(page: &mut Page) {
    page.says("group_pending", [events::group_pending("train", "2 pods needed, 1 exists.")]);
    let why = events::owner_not_found("Job", "train", "default");
    page.says("group_not_created", [events::group_not_created("train", &why)]);
    page.says("template_not_found", [events::template_not_found(&key("train"), "w", "worker")]);
    page.says("group_not_found", [events::group_not_found(&key("train"))]);
    page.says("owner_not_found", [why]);
    page.says("owner_not_read", [events::owner_not_read("Job", "train", "it is not allowed")]);
}

fn refusals(page: &mut Page) {
    let train = key("train");
    let prevents = |is_group, withheld, needed| {
        let budget = "budget default/db, which allows evictions from priority 200 on";
        both(&events::budget_prevents_preemption(preemptor(is_group, &train), 100, withheld, needed, budget))
    };
    page.says_without_zero(
        "budget_prevents_preemption",
        "the event is written only if a budget prevents the preemption for at least one pod",
        [prevents(false, 1, 1), prevents(true, 1, 2), prevents(true, 2, 2)].concat(),
    );
    page.says("eviction_refused", [events::eviction_refused(&key("db"), "no disruption is allowed")]);
    let why = "without other pods there is no event";
    let not_evicted = [1, 2].map(|others| events::others_not_evicted("a", others, "the namespace is protected"));
    page.says_without_zero("others_not_evicted", why, not_evicted);
    let later = events::partial_gang_evicted_later(limit_reached(None, 1, at()));
    page.says("partial_gang_evicted_later", [later]);
}

fn others(page: &mut Page) {
    let dns = key("dns");
    let addon = Some(preemptor(false, &dns));
    page.says("node_reserved", [events::node_reserved("u-1", addon), events::node_reserved("u-1", None)]);
    page.says("node_released", [events::node_released("u-1", addon), events::node_released("u-1", None)]);
    page.says("mode_invalid", [events::mode_invalid(&UnknownMode("on".to_owned()))]);
    page.says("mode_missing", [events::mode_missing()]);
    page.says("mode_unknown", [events::mode_unknown(&events::mode_missing(), Mode::Observe)]);
    let (set, removed) = ([("k1", "1"), ("k2", "2")], ["k3", "k4"]);
    let corrected = events::annotations_corrected;
    page.says_without_zero(
        "annotations_corrected",
        "a correction changes an annotation",
        [
            corrected(CorrectedPod::NotSeen("high"), &set[..1], &[]),
            corrected(CorrectedPod::NotSeen("high"), &set, &[]),
            corrected(CorrectedPod::WrongValue("high"), &set[..1], &[]),
            corrected(CorrectedPod::WrongValue("high"), &set[..1], &removed[..1]),
            corrected(CorrectedPod::WithoutClass, &[], &removed[..1]),
            corrected(CorrectedPod::WithoutClass, &[], &removed),
        ],
    );
    page.says("authority_created", [events::authority_created("there is no usable one")]);
    let why = "less than a third of the validity of the current one is left";
    page.says("next_authority_created", [0, 1, 2].map(|seconds| events::next_authority_created(why, seconds)));
    page.says("authority_not_trusted", [events::authority_not_trusted()]);
    page.says("authority_signs", [events::authority_signs()]);
    page.says("certificate_renewed", [events::certificate_renewed("less than a third of its validity is left")]);
    page.says("certificate_unusable", [events::certificate_unusable("ca.crt", "its key is not in PEM format")]);
}
