//! Plans and departures.

use super::{Page, at, both, key, preemptor, rack};
use giveway_crds::plan::{PlanState, StoredDomain};
use giveway_crds::wording::Sentence;
use giveway_crds::wording::conditions::disruption::{self, PartialGangFacts, PartialGangRemedy, ShortenedGrace};
use giveway_crds::wording::conditions::plan::{self, AddonStep, PlanEffect};
use giveway_crds::wording::conditions::plan_end::{self, EvictionFailure, UnboundReport, VictimChange};
use giveway_crds::wording::conditions::progress::{self, UngatedMembers};
use giveway_crds::wording::conditions::resumed::{self, UnsoundVictim};

pub(super) fn add(page: &mut Page) {
    victims(page);
    departures(page);
    effects(page);
    ends(page);
    ends_for_victims(page);
    ends_for_members(page);
    progress(page);
    resumed(page);
}

fn victims(page: &mut Page) {
    page.file("conditions/disruption.rs");
    let train = key("train");
    let grace = |own, longest| Some(ShortenedGrace { own, longest });
    let said = [
        disruption::preempted(preemptor(true, &train), 100, true, 10, None),
        disruption::preempted(preemptor(false, &train), 100, false, 10, grace(7200, 3600)),
    ];
    page.says("preempted", said.iter().flat_map(both));
    let said = [
        disruption::preempted_by_addon(preemptor(false, &train), 2_000_000_000, None),
        disruption::preempted_by_addon(preemptor(false, &train), 2_000_000_000, grace(30, 10)),
    ];
    page.says("preempted_by_addon", said.iter().flat_map(both));
    let why = "without other pods there is no departure";
    page.says_without_zero(
        "member_preempted",
        why,
        [1, 2].map(|others| disruption::member_preempted("kube-scheduler", "a", others)),
    );
    let partially_disrupted = [1, 2].map(|left| disruption::partially_disrupted("p-1", &train, left));
    page.says_without_zero("partially_disrupted", why, partially_disrupted);
}

fn departures(page: &mut Page) {
    let said = Some(("b", "0/3 nodes are available"));
    let gang = |bound: usize, needed: usize| PartialGangFacts {
        seconds: 600,
        bound,
        needed,
        said: said.filter(|_| bound > 0),
    };
    page.says(
        "partially_scheduled",
        [
            disruption::partially_scheduled(gang(0, 1), PartialGangRemedy::Evict),
            disruption::partially_scheduled(gang(1, 2), PartialGangRemedy::Evict),
            disruption::partially_scheduled(gang(2, 3), PartialGangRemedy::NoController("c")),
            disruption::partially_scheduled(gang(2, 3), PartialGangRemedy::NotPermitted("the namespace is protected")),
        ],
    );
    page.says("own_plan_ends_for_scheduler", [disruption::own_plan_ends_for_scheduler()]);
    page.says("own_plan_ends_for_plan", [disruption::own_plan_ends_for_plan()]);
    let why = "a departure without pods has another end";
    page.says_without_zero("no_pod_left", why, [1, 2].map(disruption::no_pod_left));
    page.says("evicted_by_another", [disruption::evicted_by_another()]);
    page.says("departure_deleted", [disruption::departure_deleted()]);
    let left = [(1, 1), (1, 2), (2, 2)];
    let why = "if no pod is left, the departure has another end";
    page.says_without_zero(
        "rest_protected",
        why,
        left.map(|(left, all)| disruption::rest_protected(left, all, "the namespace is protected")),
    );
    page.says_without_zero("enough_bound", why, left.map(|(left, all)| disruption::enough_bound(left, all)));
    page.says(
        "departure_restrained",
        [disruption::departure_restrained("Giveway is in mode observe and evicts no pods")],
    );
    page.says("member_bound", [disruption::member_bound(&key("a"))]);
    page.says("eviction_retried", both(&disruption::eviction_retried(&key("a"), "u-2", "no disruption is allowed")));
    let budget =
        [0, 1, 2].map(|count: i32| disruption::budget_violated("db", count, 2, usize::try_from(count).unwrap()));
    page.says("budget_violated", budget);
}

fn effects(page: &mut Page) {
    page.file("conditions/plan.rs");
    let (train, domain) = (key("train"), rack());
    let step = AddonStep { node: "n1", means: "no PodDisruptionBudget is violated" };
    let effect = |state, victims, members| PlanEffect {
        state,
        preemptor: preemptor(true, &train),
        priority: 100,
        members,
        domain: None,
        addon: None,
        victims,
        accepted: victims,
        whole_groups: 0,
        highest_priority: 10,
        violations: 0,
        least: None,
    };
    let planned = |victims, members| effect(PlanState::Planned, victims, members);
    let single = PlanEffect { preemptor: preemptor(false, &train), ..planned(1, 1) };
    let wide = PlanEffect { domain: Some(&domain), whole_groups: 1, violations: 1, least: Some(1), ..planned(2, 2) };
    let failed = |accepted| PlanEffect { accepted, ..effect(PlanState::Failed, 2, 1) };
    let completed = effect(PlanState::Completed, 2, 2);
    let observed = effect(PlanState::Observed, 1, 1);
    let addon = PlanEffect { addon: Some(step), priority: 2_000_000_000, ..single };
    let sentences = [
        planned(1, 1),
        planned(2, 2),
        single,
        PlanEffect { whole_groups: 1, violations: 1, ..single },
        wide,
        PlanEffect { whole_groups: 2, violations: 2, ..wide },
        failed(0),
        failed(1),
        PlanEffect { violations: 1, ..completed },
        PlanEffect { violations: 2, ..completed },
        PlanEffect { violations: 1, ..observed },
        PlanEffect { violations: 2, victims: 2, ..observed },
        addon,
        PlanEffect { state: PlanState::Completed, victims: 2, accepted: 2, ..addon },
    ];
    let why = "a plan with evictions has a victim and places a pod";
    page.says_without_zero("planned", why, sentences.map(plan::planned).iter().flat_map(both));
    let restraint = "Giveway is in mode observe and evicts no pods";
    page.says_without_zero("observed", why, both(&plan::observed(restraint, observed)));
    page.says_without_zero(
        "would_evict",
        why,
        [
            plan::would_evict(restraint, observed),
            plan::would_evict(restraint, PlanEffect { violations: 1, ..single }),
            plan::would_evict(restraint, wide),
            plan::would_evict(restraint, PlanEffect { whole_groups: 2, violations: 2, ..wide }),
        ],
    );
    page.says_without_zero("would_free_node", why, [plan::would_free_node(restraint, addon, "n1")]);
    page.says_without_zero("observed_plan_not_stored", "it is a constant", [plan::observed_plan_not_stored(60)]);
}

fn ends(page: &mut Page) {
    page.file("conditions/plan_end.rs");
    let placed = [(0, 1), (1, 1), (0, 2), (1, 2), (2, 2), (1, 3)];
    page.says("completed", placed.map(|(bound, placed)| plan_end::completed(bound, placed)));
    page.says("group_deleted", [plan_end::group_deleted()]);
    let fewer = [(0, 1), (0, 2), (1, 2), (2, 3)];
    page.says("too_few_members", fewer.map(|(have, needed)| plan_end::too_few_members(have, needed)));
    page.says("member_deleted", [plan_end::member_deleted(&key("a"))]);
    page.says("member_ended", [plan_end::member_ended(&key("a"))]);
    page.says("bound_without_evictions", [plan_end::bound_without_evictions()]);
    page.says("capacity_became_free", [plan_end::capacity_became_free()]);
    page.says("fewer_victims", [plan_end::fewer_victims()]);
    page.says("other_capacity_is_free", [plan_end::other_capacity_is_free()]);
    let changed = || plan_end::victim_changed(&key("db"), "u-2", VictimChange::NotOfLowerPriority);
    page.says("no_pod_evicted", both(&plan_end::no_pod_evicted(changed())));
    let why = "Pod default/a does not fit on node n1.";
    page.says("outdated", [plan_end::outdated(why)]);
    page.says("does_not_fit", [plan_end::does_not_fit(Sentence::from(why))]);
    page.says("not_valid", both(&plan_end::not_valid(changed())));
    page.says("became_infeasible", [plan_end::became_infeasible(why)]);
    page.says("became_infeasible_after_evictions", [plan_end::became_infeasible_after_evictions(why)]);
    page.says("victim_is_overdue", both(&plan_end::victim_is_overdue(&key("db"), "u-2", why)));
    page.says("depends_for_too_long", [plan_end::depends_for_too_long()]);
}

fn ends_for_victims(page: &mut Page) {
    let changes = [
        VictimChange::NotOfLowerPriority,
        VictimChange::CriticalAddon,
        VictimChange::OtherUnit,
        VictimChange::Critical,
    ];
    page.says("victim_changed", changes.map(|change| plan_end::victim_changed(&key("db"), "u-2", change)));
    page.says("victim_group_has_grown", both(&plan_end::victim_group_has_grown(&key("web"), "u-2")));
    page.says("not_critical_any_more", [plan_end::not_critical_any_more(&key("dns"), "u-1")]);
    let protected = [false, true]
        .map(|evicted| plan_end::victim_protected(evicted, &key("db"), "u-2", "its namespace is protected"));
    page.says("victim_protected", protected.iter().flat_map(both));
    let failures = [EvictionFailure::Budget, EvictionFailure::Rejected, EvictionFailure::Failed];
    let failed =
        failures.map(|failure| plan_end::eviction_failed(&key("db"), "u-2", failure, "no disruption is allowed"));
    page.says("eviction_failed", failed.iter().flat_map(both));
}

fn ends_for_members(page: &mut Page) {
    page.says("nomination_rejected", [plan_end::nomination_rejected(&key("a"), "u-3", "the policy forbids it")]);
    page.says("ungating_rejected", [plan_end::ungating_rejected(&key("a"), "u-3", "the policy forbids it")]);
    page.says(
        "could_not_bind",
        [
            plan_end::could_not_bind("Pod default/a does not fit on node n1.", None),
            plan_end::could_not_bind("Pod default/a does not fit on node n1.", Some(("a", "the volume is in use"))),
        ],
    );
    page.says(
        "not_bound_in_time",
        [
            plan_end::not_bound_in_time(60, "a", UnboundReport::Said("the volume is in use")),
            plan_end::not_bound_in_time(60, "a", UnboundReport::NoneInTime),
            plan_end::not_bound_in_time(60, "a", UnboundReport::None),
        ],
    );
    let (domain, other) = (rack(), StoredDomain { value: "r2".into(), ..rack() });
    page.says("node_outside_domain", [plan_end::node_outside_domain("n1", &key("a"), &domain)]);
    page.says("member_outside_domain", [plan_end::member_outside_domain(&key("a"), "n1", &domain)]);
    page.says("member_ungated_for", [plan_end::member_ungated_for(&key("a"), &other, &domain)]);
    page.says("member_asks_for", [plan_end::member_asks_for(&key("a"), &other, &domain)]);
    page.says("preemption_deleted", [plan_end::preemption_deleted()]);
    let why = "the API server rejected it";
    page.says("could_not_be_stored", [false, true].map(|evicted| plan_end::could_not_be_stored(evicted, why)));
    let restraint = "Giveway is in mode observe and evicts no pods";
    page.says("restrained", [false, true].map(|has_victims| plan_end::restrained(restraint, has_victims)));
    page.says("next_plan_at", [plan_end::next_plan_at(at())]);
}

fn progress(page: &mut Page) {
    page.file("conditions/progress.rs");
    let domain = rack();
    let members = |placed: usize, bound: usize, others: usize| UngatedMembers {
        placed,
        bound,
        others,
        domain: Some(&domain).filter(|_| others > 0),
    };
    let why = "a plan places a pod";
    let all = [members(1, 0, 0), members(2, 1, 0), members(2, 0, 1), members(2, 2, 2)];
    page.says_without_zero("ungated", why, all.map(progress::ungated));
    page.says_without_zero("ungated_not_bound", why, all.map(progress::ungated_not_bound));
    page.says("scheduler_says", [progress::scheduler_says("the volume is in use")]);
    page.says("scheduler_is_down", [progress::scheduler_is_down()]);
    page.says("scheduler_is_idle", [progress::scheduler_is_idle()]);
    page.says("nodes_are_crowded", [progress::nodes_are_crowded()]);
    page.says("scheduler_is_busy", [0, 1, 2].map(progress::scheduler_is_busy));
    page.says_without_zero(
        "victims_terminate",
        "a plan with evictions has a victim and places a pod",
        [
            progress::victims_terminate(1, None, 0, 1),
            progress::victims_terminate(1, None, 1, 2),
            progress::victims_terminate(2, Some(&domain), 0, 1),
            progress::victims_terminate(2, None, 2, 2),
        ],
    );
    page.says("depends_on_another_plan", [progress::depends_on_another_plan()]);
    let reserved = [progress::capacity_reserved(1, None), progress::capacity_reserved(2, Some(&domain))];
    page.says_without_zero("capacity_reserved", why, reserved);
    page.says_without_zero(
        "fits_after_termination",
        "without terminating pods capacity is reserved at once",
        [progress::fits_after_termination(1, None, 1), progress::fits_after_termination(2, Some(&domain), 2)],
    );
    page.says("not_stored", [progress::not_stored("the policy forbids it")]);
    let limits = [(None, 0), (Some("default"), 1), (None, 2)];
    let limits = limits.map(|(namespace, most)| progress::limit_reached(namespace, most, at()));
    page.says("limit_reached", limits.iter().flat_map(both));
}

fn resumed(page: &mut Page) {
    page.file("conditions/resumed.rs");
    let (db, domain) = (key("db"), rack());
    let unsound = |why| resumed::unsound_victim(&db, "u-2", why);
    page.says("not_valid", both(&resumed::not_valid(unsound(UnsoundVictim::Static))));
    page.says("preemptor_deleted", [resumed::preemptor_deleted()]);
    page.says("preemptor_replaced", [resumed::preemptor_replaced()]);
    page.says("preemptor_never_preempts", [resumed::preemptor_never_preempts()]);
    page.says("priority_changed", [resumed::priority_changed(50, 100)]);
    page.says("foreign_member", [resumed::foreign_member(&key("a"))]);
    page.says("domain_missing", [resumed::domain_missing("rack")]);
    page.says("domain_of_another_key", [resumed::domain_of_another_key("zone", &domain)]);
    page.says("domain_not_asked_for", [resumed::domain_not_asked_for(&domain)]);
    let reasons = [
        UnsoundVictim::Static,
        UnsoundVictim::Protected,
        UnsoundVictim::CriticalAddon,
        UnsoundVictim::NotOfLowerPriority,
        UnsoundVictim::OtherUnit,
    ];
    page.says("unsound_victim", reasons.map(unsound));
    page.says("group_has_grown", both(&resumed::group_has_grown(&key("web"), "u-2")));
    page.says("budget_guaranteed", both(&resumed::budget_guaranteed(&db, "u-2", "it needs 2 healthy pods")));
    page.says("partially_stored", [resumed::partially_stored("not every part of the plan was stored (1 of 2)")]);
    page.says("without_status", [resumed::without_status()]);
    page.says("older_plan", [resumed::older_plan()]);
    page.says("departure_without_group", [resumed::departure_without_group()]);
    page.says("addons_switched_off", [resumed::addons_switched_off()]);
    page.says("unknown_plan", [resumed::unknown_plan()]);
    page.says("plan_has_ended", [resumed::plan_has_ended()]);
}
