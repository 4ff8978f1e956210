//! Why preemptors are pending, critical add-ons, and requests for capacity.

use super::{Page, at, both, key};
use giveway_crds::breaker::{OF_A_NAMESPACE, PLANS};
use giveway_crds::wording::conditions::addon::{self, AddonEvictions};
use giveway_crds::wording::conditions::capacity::{self, NotAsked, RequestProgress};
use giveway_crds::wording::conditions::pending::{self, BreakerTurn, SharedBreakerFacts};

pub(super) fn add(page: &mut Page) {
    addons(page);
    requests(page);
    preemptors(page);
    breakers(page);
}

fn addons(page: &mut Page) {
    page.file("conditions/addon.rs");
    let evictions = |accepted, victims| AddonEvictions { accepted, victims };
    page.says(
        "deleted",
        [
            addon::deleted(&key("dns"), evictions(None, 1)),
            addon::deleted(&key("dns"), evictions(Some(0), 1)),
            addon::deleted(&key("dns"), evictions(Some(1), 1)),
            addon::deleted(&key("dns"), evictions(Some(0), 2)),
            addon::deleted(&key("dns"), evictions(Some(1), 2)),
            addon::deleted(&key("dns"), evictions(Some(2), 2)),
        ],
    );
    page.says("bound", [addon::bound("n1", evictions(None, 1)), addon::bound("n1", evictions(Some(1), 2))]);
    page.says(
        "bound_elsewhere",
        [addon::bound_elsewhere("n2", evictions(None, 1)), addon::bound_elsewhere("n2", evictions(Some(2), 2))],
    );
    page.says_without_zero("not_bound", "the time limit is 10 minutes", [addon::not_bound("n1", 10)]);
    let failed = [1, 2].map(|tries| addon::taint_failed(&key("dns"), "u-1", tries));
    page.says_without_zero("taint_failed", "a call that was not made has not failed", failed.iter().flat_map(both));
    page.says("scheduler_may_be_down", [0, 1, 2].map(|n| addon::scheduler_may_be_down(n, &key("kube-scheduler"))));
    page.says("fits", [addon::fits("n1")]);
    page.says("fits_after_termination", [addon::fits_after_termination("n1")]);
    page.says("taint_stays", [addon::taint_stays("n1", "u-1", "the API server is overloaded")]);
}

fn requests(page: &mut Page) {
    page.file("conditions/capacity.rs");
    let requested = |members, progress| capacity::requested(members, "train-1", progress);
    page.says_without_zero(
        "requested",
        "capacity is requested for pending members",
        [
            requested(1, RequestProgress::Pending),
            requested(1, RequestProgress::Accepted),
            requested(2, RequestProgress::Provisioned),
        ],
    );
    page.says_without_zero(
        "placeholders",
        "capacity is requested for pending members",
        [
            capacity::placeholders(1, 0),
            capacity::placeholders(1, 1),
            capacity::placeholders(2, 0),
            capacity::placeholders(2, 1),
            capacity::placeholders(2, 2),
        ],
    );
    page.says("failed", [capacity::failed(&capacity::placeholders_not_bound(1, 2, 10), at())]);
    page.says("request_failed", [capacity::request_failed("train-1", "The quota is exceeded.")]);
    page.says_without_zero(
        "placeholders_not_bound",
        "each pending member has a placeholder",
        [
            capacity::placeholders_not_bound(0, 1, 10),
            capacity::placeholders_not_bound(0, 2, 10),
            capacity::placeholders_not_bound(1, 2, 10),
        ],
    );
    page.says_without_zero(
        "not_asked",
        "a number is above a maximum",
        [
            capacity::not_asked(NotAsked::TooMany { members: 1, limit: 0 }),
            capacity::not_asked(NotAsked::TooMany { members: 2, limit: 1 }),
            capacity::not_asked(NotAsked::TooManySets { sets: 33, most: 32 }),
            capacity::not_asked(NotAsked::ClassNotManaged),
        ],
    );
    page.says("not_needed", [capacity::not_needed()]);
}

fn preemptors(page: &mut Page) {
    page.file("conditions/pending.rs");
    page.says("switched_off", [pending::switched_off()]);
    page.says("limit_is_zero", [pending::limit_is_zero("victims.evictionsPerMinute.perCluster")]);
    page.says("not_served", [pending::not_served("default")]);
    page.says("backs_off_after_disruption", [pending::backs_off_after_disruption(at())]);
    page.says("rehearsal_rejected", [pending::rehearsal_rejected("The nomination of a node was rejected: no.", at())]);
    page.says(
        "reserved_for_successor",
        [
            pending::reserved_for_successor("n1", Some(&key("train")), at()),
            pending::reserved_for_successor("n1", None, at()),
        ],
    );
    page.says("foreign_scheduler", [pending::foreign_scheduler("volcano")]);
    page.says("new_pods_excluded", [pending::new_pods_excluded()]);
    page.says("too_many_plans", [0, 1, 2].map(|plans| pending::too_many_plans(plans, 100, plans)));
    page.says(
        "placement_banned",
        [
            pending::placement_banned("a", Some("n1"), at(), "The plan failed."),
            pending::placement_banned("a", None, at(), "The plan failed."),
        ],
    );
    page.says("victim_banned", both(&pending::victim_banned(&key("db"), "u-2", at(), "the policy forbids it")));
}

fn breakers(page: &mut Page) {
    let (at, shared) = (at(), |of_namespace, preemptors| SharedBreakerFacts { of_namespace, preemptors });
    let why = "as many plans open a breaker";
    page.says_without_zero("breaker_open", why, [PLANS, PLANS + 1].map(|plans| pending::breaker_open(plans, at)));
    assert_eq!((PLANS, OF_A_NAMESPACE), (3, 2), "the least numbers that open a breaker");
    let why = "as many preemptors open a breaker";
    page.says_without_zero(
        "shared_breaker_open",
        why,
        [
            pending::shared_breaker_open(shared(true, OF_A_NAMESPACE), at),
            pending::shared_breaker_open(shared(false, 5), at),
        ],
    );
    page.says_without_zero(
        "shared_breaker_half_open",
        why,
        [
            pending::shared_breaker_half_open(shared(true, OF_A_NAMESPACE), BreakerTurn::After(at)),
            pending::shared_breaker_half_open(shared(false, 5), BreakerTurn::AfterCurrent),
        ],
    );
    page.says_without_zero("plan_stopped_by_breaker", why, [pending::plan_stopped_by_breaker(shared(false, 5))]);
}
