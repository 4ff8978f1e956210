//! Every number that bounds the effort, the memory or the texts of the planner, in one table.
//!
//! Numbers that bound nothing stay where they are used: units, scales, sizes of the parts of a data structure, and the one value that
//! means "no limit". A name begins with `MOST` if it is an upper bound, and says otherwise what it counts. After the first sentence, which
//! gives the unit, each comment says:
//!
//! * `Why:` the reason for this number, and not one that is much smaller or larger;
//! * `Beyond:` what happens above it, and where that is reported;
//! * `Page:` the page that states the number, with the words there. A test compares both (`tests/planner/limits.rs`).

// What objects of users may contain.

/// Digits of a quantity.
/// Why: 128 bits have 39 digits; it bounds the work for hostile input.
/// Beyond: the quantity is an error, which names the field and repeats this number of characters of the text.
pub(crate) const QUANTITY_DIGITS: usize = 64;

/// Amount of one resource that a pod requests or a node offers, in the scheduler's unit.
/// Why: the sum over more than a billion pods does not overflow 128 bits.
/// Beyond: the pod or node has an error, which names the field. Of a bound pod what kube-scheduler counts in 64 bits is used instead.
pub(crate) const MOST_REQUESTED: i128 = 1 << 96;

/// Seconds that an evicted pod keeps of its grace period, and for which a preemptor waits for the capacity of a terminating pod.
/// Why: the user who deletes a pod chooses its grace period: one of years would block the capacity from all preemptors.
/// Beyond: the pod is evicted with this grace period, which its event says. A pod that terminates more slowly counts as running.
/// Page: docs/limits.md: "a grace period of 3,600 s"
pub const MAX_GRACEFUL_TERMINATION: i64 = 3600;

/// Terms of a preemptor's node affinity and node selector, and what they require of labels and fields, in all.
/// Why: each rule is evaluated for thousands of nodes, and a user may write thousands of rules.
/// Beyond: no pod is evicted for the preemptor, and kube-scheduler schedules it. The condition or event states both numbers.
/// Page: docs/limits.md: "300 rules of node affinity"
pub(crate) const MOST_NODE_RULES: usize = 300;

/// Terms of a preemptor's pod affinity, and as many of anti-affinity.
/// Why: each term is a counter of pods by domain, which every placement updates.
/// Beyond: as for [`MOST_NODE_RULES`].
/// Page: docs/limits.md: "16 terms of pod affinity"
pub(crate) const MOST_AFFINITY_TERMS: usize = 16;

/// Rules on labels in all of these terms, and in topology spread constraints.
/// Why: each rule is evaluated for every class of pods in the cluster.
/// Beyond: as for [`MOST_NODE_RULES`].
/// Page: docs/limits.md: "100 rules on labels of other pods"
pub(crate) const MOST_LABEL_RULES: usize = 100;

/// Topology spread constraints of a preemptor.
/// Why: as for [`MOST_AFFINITY_TERMS`].
/// Beyond: as for [`MOST_NODE_RULES`].
/// Page: docs/limits.md: "16 topology spread constraints"
pub(crate) const MOST_SPREADS: usize = 16;

/// Host ports, and claims that only one pod may use, of a preemptor.
/// Why: each of them is compared with those of all pods on a node.
/// Beyond: as for [`MOST_NODE_RULES`].
/// Page: docs/limits.md: "100 host ports and claims for one pod"
pub(crate) const MOST_PORTS: usize = 100;

/// Tolerations of a preemptor.
/// Why: each of them is compared with the taints of every node; admission plugins add a few, and a user may write thousands.
/// Beyond: as for [`MOST_NODE_RULES`].
/// Page: docs/limits.md: "500 tolerations"
pub(crate) const MOST_TOLERATIONS: usize = 500;

/// Requirements and values in the selector of a `PodDisruptionBudget`.
/// Why: it is compared with every pod of its namespace; selectors that people write have a few.
/// Beyond: the budget counts as one that selects every pod of its namespace, which protects at least as many pods. It is not reported.
/// Page: docs/limits.md: "100 requirements and values in the selector of a PodDisruptionBudget"
pub(crate) const MOST_SELECTOR_RULES: usize = 100;

// What is kept between decisions.

/// Changes of the model that are logged for the kept answers.
/// Why: 256 KiB; an object has only one unread change, however often it changes.
/// Beyond: the oldest are dropped, and kept answers that have not read them are computed again. Only the time of one decision tells it.
pub(crate) const CHANGES_KEPT: usize = 1 << 15;

/// Equal parts of pods, of one type, up to which unused ones are not looked for.
/// Why: a small cluster is never searched for unused parts.
/// Beyond: parts that no pod uses are removed as soon as they can be half of all.
pub(crate) const PARTS_KEPT: usize = 1024;

/// Pairs of an equivalence class and a priority whose capacities are kept.
/// Why: preemptors with the same requests and constraints share one; [`NODE_ANSWERS_KEPT`] bounds the memory.
/// Beyond: those that were used longest ago are dropped, and computed again when they are needed.
/// Page: planner/README.md: "the last 128 pairs of equivalence class and priority"
pub(crate) const ANSWERS_KEPT: usize = 128;

/// Capacities of single nodes in all kept answers together, of about 200 bytes each.
/// Why: 160 MB, which hold all pairs of [`ANSWERS_KEPT`] in a cluster of 6,000 nodes.
/// Beyond: as for [`ANSWERS_KEPT`].
/// Page: planner/README.md: "800,000 node results"
pub(crate) const NODE_ANSWERS_KEPT: usize = 800_000;

/// Resources that a class of members requests, for capacities to be kept.
/// Why: a set of them is stored as the bits of one number.
/// Beyond: nothing is kept for the class; its members are placed on the nodes themselves, which takes longer.
pub(crate) const MOST_RESOURCES: usize = 64;

/// Amount of one resource of one pod in the sums that the model keeps, in the scheduler's unit.
/// Why: the sum over a thousand pods of a node fits into 64 bits.
/// Beyond: the pod counts with this amount, so that what its eviction frees is never overestimated.
pub(crate) const MOST_IN_SUMS: i128 = 1 << 52;

/// Amount of one resource in a problem that is solved in 64 bits, in the scheduler's unit.
/// Why: the sums of a few dozen such amounts fit into 64 bits.
/// Beyond: the problem is solved in 128 bits, which takes longer.
pub(crate) const MOST_IN_MATRIX: i128 = 1 << 58;

// The looks of one decision, at a node or a pod. `planner/BENCHMARKS.md` has what decisions take.

/// Looks of a decision for a preemptor, to choose victims.
/// Why: with what follows, a decision is to take less than 100 ms in any cluster.
/// Beyond: the best plan so far is taken. Without one the reason is `SearchLimitReached`, and the pods stay gated and are retried.
/// Page: docs/limits.md: "320,000 steps of the search"
pub(crate) const DECISION_LOOKS: usize = 320_000;

/// Further looks, which are reserved to place the members with all potential victims removed, if it is known that they fit then but
/// [`DECISION_LOOKS`] were used up before a placement was found.
/// Why: a quarter of [`DECISION_LOOKS`], for one placement without a search.
/// Beyond: as for [`DECISION_LOOKS`].
pub(crate) const LAST_RESORT_LOOKS: usize = 80_000;

/// The part of the remaining looks that the careful placement of members of several classes may take, as its reciprocal.
/// Why: three quarters are left for the choice of victims.
/// Beyond: the members are placed by the plain greedy pass only.
pub(crate) const CAREFUL_SHARE: usize = 4;

/// Looks of the plain greedy placement of members of many classes, as many as classes × nodes.
/// Why: 1,000 members of 1,000 classes on 5,000 free nodes; such a look takes a small part of the time of another one.
/// Beyond: as for [`DECISION_LOOKS`].
/// Page: planner/README.md: "at most 5,000,000 in a decision"
pub(crate) const PLAIN_LOOKS: usize = 5_000_000;

/// Looks that the choice of victims on one of the nodes for a single pod may use.
/// Why: it does not depend on what other nodes took, so that the choice can be kept from one decision to the next.
/// Beyond: the best choice so far is taken, and the plan does not say that nothing cheaper exists.
pub(crate) const NODE_LOOKS: usize = 40_000;

/// Looks that count for the choice of victims on one node for a single pod, in addition to those of its searches.
/// Why: it collects the units of the node before it searches.
/// Beyond: the looks of a decision end the choice among nodes, as for [`DECISION_LOOKS`].
pub(crate) const LOOKS_AT_A_NODE: usize = 200;

/// Looks of the check which victims fit on other nodes.
/// Why: it decides late steps of the order only, so it must not take more than the search.
/// Beyond: no further pod is taken to fit on another node, which affects those steps only.
/// Page: planner/README.md: "at most 60,000 looks"
pub(crate) const ELSEWHERE_LOOKS: usize = 60_000;

/// Looks of the explanation why a preemptor does not fit.
/// Why: about half of a decision. The search may have used up its looks, and its outcome must be explained all the same.
/// Beyond: members that were not placed by then count as members that do not fit.
pub(crate) const EXPLANATION_LOOKS: usize = 150_000;

/// Looks of the search for one critical add-on.
/// Why: fewer than [`DECISION_LOOKS`], because it is made beside a decision for a preemptor.
/// Beyond: the best choice so far is taken, and the trace says how many nodes were searched.
pub(crate) const ADDON_LOOKS: usize = 120_000;

/// Looks of the exact search on one node for a critical add-on.
/// Why: a sixth of [`ADDON_LOOKS`], so that other nodes are searched, too.
/// Beyond: as for [`ADDON_LOOKS`].
pub(crate) const ADDON_NODE_LOOKS: usize = 20_000;

// Which nodes, classes and domains are examined.

/// Nodes of a cluster of which all are examined.
/// Why: the upper bounds that exclude nodes cost more than they save there.
/// Beyond: nodes on which no member can fit by these upper bounds are left out.
/// Page: planner/README.md: "With up to 64 nodes all of them are used"
pub(crate) const SMALL_CLUSTER: usize = 64;

/// Nodes that are examined for a gang, if that is more than twice its members.
/// Why: a greedy placement on them takes a small part of [`DECISION_LOOKS`].
/// Beyond: only the most promising nodes are examined, and the plan does not say that nothing cheaper exists.
/// Page: planner/README.md: "more than 1,024 nodes"
pub(crate) const MOST_NODES_SEARCHED: usize = 1024;

/// Factor on [`MOST_NODES_SEARCHED`], for a gang with classes whose capacities are not computed.
/// Why: which nodes are promising for these classes is not known.
/// Beyond: nodes that only these classes can use may be left out.
pub(crate) const MORE_NODES: usize = 4;

/// Classes of members whose capacities are computed for all nodes: half of them those with the smallest requests, half the largest.
/// Why: a gang of a hundred classes must not take more time than one of four.
/// Beyond: members of the other classes are assumed to fit on every node, until they are placed.
/// Page: docs/limits.md: "more than 4 equivalence classes of members"
pub(crate) const MOST_CLASSES_COUNTED: usize = 4;

/// Nodes to which labels restrict a class, up to which all of them are examined.
/// Why: they take a small share of [`MOST_NODES_SEARCHED`] from other classes.
/// Beyond: they are examined if they are among the most promising ones.
pub(crate) const MOST_PINNED_NODES: usize = 64;

/// Nodes for a single pod that are compared by what their victims lose, because they are equal before.
/// Why: each takes a search of its own.
/// Beyond: the first ones by name are compared.
/// Page: planner/README.md: "up to 16 nodes are compared in this way"
pub(crate) const MOST_NODES_TIED: usize = 16;

/// Topology domains that are tried for a placement without evictions, and those that are searched for victims.
/// Why: each takes a search of its own; the lower bounds put the cheapest first.
/// Beyond: the others are not searched, and the plan does not say that nothing cheaper exists. In a [`SMALL_CLUSTER`] all are.
/// Page: docs/limits.md: "32 topology domains"
pub(crate) const MOST_DOMAINS_TRIED: usize = 32;

/// Topology domains with the largest capacity that are tried for a placement without evictions in addition.
/// Why: the upper bounds by which the first ones were chosen may be wrong.
/// Beyond: as for [`MOST_DOMAINS_TRIED`].
pub(crate) const ROOMIEST_DOMAINS_TRIED: usize = 8;

// Inter-pod constraints.

/// Classes of members for which pods are counted by inter-pod constraints.
/// Why: each placement updates the counters of all of them.
/// Beyond: members of further classes are not placed. If not enough others fit, no pod is evicted for the gang, and kube-scheduler schedules it;
/// with a topology constraint it stays gated. The condition or event states both numbers.
/// Page: docs/limits.md: "64 equivalence classes of members with rules about other pods"
pub(crate) const MOST_CLASSES_AROUND: usize = 64;

/// Counters of pods by inter-pod constraint and domain.
/// Why: as for [`MOST_CLASSES_AROUND`]; a class needs one for each of its constraints.
/// Beyond: as for [`MOST_CLASSES_AROUND`].
/// Page: docs/limits.md: "128 different rules about other pods"
pub(crate) const MOST_COUNTERS: usize = 128;

/// Classes of members whose affinity is evaluated before nodes are left out.
/// Why: it is evaluated for every domain of the cluster.
/// Beyond: nodes that the affinity of another class excludes may be among those that are examined.
pub(crate) const MOST_CLASSES_EXCLUDING: usize = 4;

/// Domains of a spread constraint for which the remaining skew is kept by pair of domains.
/// Why: a table of 64 × 64 numbers.
/// Beyond: all members are placed again to check a pod that is put back, which takes longer.
pub(crate) const MOST_SKEW_DOMAINS: usize = 64;

/// Different spread constraints of the members that are nominated to one node, for the check whether they exclude each other.
/// Why: the same as [`MOST_CLASSES_AROUND`].
/// Beyond: further constraints are not compared.
pub(crate) const MOST_SPREADS_COMPARED: usize = 64;

/// Rounds in which the placements of a stored plan are tried; each tries those that did not fit before.
/// Why: kube-scheduler binds members in its own order, so some may only fit after later ones.
/// Beyond: the plan does not fit any more, and the message names the pod and the node.
pub(crate) const PLACEMENT_ROUNDS: usize = 8;

// The search for victims: sizes up to which it is exact, and steps.

/// Units of which all subsets are searched if only amounts matter.
/// Why: most of the 2^18 subsets are cut by bounds, which [`MATRIX_CHECKS`] allow.
/// Beyond: ruin and recreate, unless a lower bound proves that no plan is cheaper; what is proven is said in the plan.
/// Page: planner/README.md: "members of one class without constraints on other pods, ≤ 18 units"
pub(crate) const MATRIX_UNITS: usize = 18;

/// Checks of subsets in that search.
/// Why: such a check compares two numbers.
/// Beyond: the best choice so far is kept, and ruin and recreate follows.
/// Page: planner/README.md: "at most 40,000 checks"
pub(crate) const MATRIX_CHECKS: usize = 40_000;

/// Units of which all subsets are searched if each check takes a placement of all members.
/// Why: most of the 2^12 subsets are cut by bounds, which [`PLACED_CHECKS`] allow.
/// Beyond: restarts of the greedy placement. If that found no permitted victims, the preemptor is reported as blocked by a guaranteed budget.
/// Page: docs/limits.md: "12 pods or PodGroups of lower priority"
pub(crate) const PLACED_UNITS: usize = 12;

/// Checks of subsets in that search.
/// Why: such a check takes up to a look for each member and node.
/// Beyond: the best choice so far is kept, and restarts follow.
/// Page: planner/README.md: "with an actual placement per check, at most 1,500"
pub(crate) const PLACED_CHECKS: usize = 1_500;

/// Looks at a node for a member, in all those checks together.
/// Why: it ends the search where members × nodes are many.
/// Beyond: as for [`PLACED_CHECKS`].
pub(crate) const PLACED_LOOKS: usize = 400_000;

/// Units on a node of which all subsets are searched for a single pod.
/// Why: bounds cut most subsets, which [`NODE_CHECKS`] allow.
/// Beyond: the choice of `kep5710` stays on that node, and the plan does not say that nothing cheaper exists.
/// Page: planner/README.md: "one pod, ≤ 40 units on a relevant node"
pub(crate) const NODE_UNITS: usize = 40;

/// Checks of subsets on all nodes for a single pod.
/// Why: such a check takes the filters of one node.
/// Beyond: as for [`NODE_UNITS`].
/// Page: planner/README.md: "at most 30,000 checks in total"
pub(crate) const NODE_CHECKS: usize = 30_000;

/// Nodes on which choices of the same sum of priorities are searched for a single pod.
/// Why: they differ in ties only, and each takes a search.
/// Beyond: such choices are not searched.
pub(crate) const NODES_WITH_TIES: usize = 16;

/// Choices that one search compares by what the victims lose, because they are equal before.
/// Why: each takes a placement of the victims on other nodes.
/// Beyond: the best choice so far stays.
pub(crate) const MOST_TIES: usize = 512;

/// Units that are looked at, in all, as a replacement of victims that lose more.
/// Why: a sixteenth of [`DECISION_LOOKS`], because it decides the last step of the order only.
/// Beyond: the remaining victims stay.
pub(crate) const REPLACEMENT_LOOKS: usize = 20_000;

/// Units that are tried as the replacement of one victim.
/// Why: the units that lose least come first; one with the same requests fits at the first try.
/// Beyond: the victim stays.
pub(crate) const REPLACEMENT_TRIES: usize = 4;

/// Attempts in which some victims are forced in or excluded before the greedy placement starts again.
/// Why: an upper bound for small problems; in others [`RESTART_LOOKS`] are used up earlier.
/// Beyond: the best plan so far is taken, without a proof.
/// Page: planner/README.md: "up to 48 greedy placements"
pub(crate) const RESTARTS: usize = 48;

/// Looks of all those attempts together.
/// Why: a hundredth of [`DECISION_LOOKS`], because these problems have many classes or inter-pod constraints.
/// Beyond: as for [`RESTARTS`].
/// Page: planner/README.md: "and 3,000 looks"
pub(crate) const RESTART_LOOKS: usize = 3_000;

/// Steps of ruin and recreate.
/// Why: the temperature falls to zero over them; in large problems [`RUIN_EFFORT`] ends them earlier.
/// Beyond: the best choice so far is taken, with its lower bound.
/// Page: planner/README.md: "up to 1,500 steps"
pub(crate) const RUIN_STEPS: usize = 1_500;

/// Amounts that ruin and recreate reads.
/// Why: they took 13 ms (`planner/BENCHMARKS.md`, "S3 warm").
/// Beyond: as for [`RUIN_STEPS`].
pub(crate) const RUIN_EFFORT: usize = 6_000_000;

/// Amounts that ruin and recreate reads without an improvement, if the cost is at most a twentieth above the lower bound.
/// Why: a quarter of [`RUIN_EFFORT`]; the whole found nothing better (`planner/BENCHMARKS.md`, "S3 warm").
/// Beyond: as for [`RUIN_STEPS`].
pub(crate) const RUIN_PATIENCE: usize = 1_500_000;

/// Victims that are tried at the end of a step of ruin and recreate, whether they need not be evicted.
/// Why: each takes a few reads on its nodes, in each of [`RUIN_STEPS`].
/// Beyond: other victims are tried in the next steps, because each begins at another one.
pub(crate) const RUIN_RETURNS: usize = 256;

/// Units above which a search for a cheaper plan must be able to save a pod.
/// Why: below, also a lower priority of a victim is worth the search.
/// Beyond: no search is started for less; the plan says what is proven.
/// Page: planner/README.md: "With more than 64 units no search is started"
pub(crate) const MANY_UNITS: usize = 64;

/// Units above which it must be able to save a fiftieth of the lower bound.
/// Why: in row S1 of `planner/BENCHMARKS.md` the search saved 3 of 2,036 pods.
/// Beyond: no search is started for less; the plan says what is proven.
/// Page: planner/README.md: "with more than 500 units"
pub(crate) const VERY_MANY_UNITS: usize = 500;

/// Pods of a victim set above which the computation of its gain counts as looks.
/// Why: a group with pods on thousands of nodes would be read for each of them.
/// Beyond: without looks for it, the gain counts as one member.
pub(crate) const MANY_PODS: usize = 64;

/// Members × nodes for which every placement is tried if the greedy one does not suffice.
/// Why: the number of placements grows exponentially; [`PACKING_TRIES`] is for small inputs.
/// Beyond: members may be reported as unschedulable although a placement exists.
/// Page: planner/README.md: "beyond 32 members × nodes"
pub(crate) const PACKING_SIZE: usize = 32;

/// Placements that are tried then.
/// Why: this search is made for every set of victims.
/// Beyond: it is recorded that not all were tried, so that nothing is called proven.
pub(crate) const PACKING_TRIES: usize = 1_500;

// Reading in the faster of two ways. Neither changes a result.

/// Pods of a unit whose pods on a node are found by filtering all of them.
/// Why: a short list is filtered without looking up the pods of the node.
/// Beyond: they are found among the pods of the node.
pub(crate) const SMALL_UNIT: usize = 16;

/// Nodes among which one is found by binary search.
/// Why: a table of all nodes takes longer to fill than such a search, and a decision for one pod examines its candidate nodes one by one.
/// Beyond: it is found in a table of all nodes.
pub(crate) const FEW_NODES: usize = 16;

/// Victims whose memory is read in advance while a plan is written.
/// Why: enough memory accesses at once that the processor waits for them together, which saves a fifth of the time to write a large plan.
/// Beyond: the next victims are read when these are written.
pub(crate) const VICTIMS_READ_AHEAD: usize = 64;

/// Nodes whose memory is read in advance while capacities are computed for the first time.
/// Why: as for [`VICTIMS_READ_AHEAD`]; what is read of so many nodes fits into the second cache of a processor.
/// Beyond: the next nodes are read when these are computed.
pub(crate) const NODES_READ_AHEAD: usize = 32;

// What texts list.

/// Guaranteed budgets that a message names.
/// Why: a user can create thousands for the same pods, and a condition has at most 32,768 characters.
/// Beyond: the message counts the others.
/// Page: docs/limits.md: "8 guaranteed budgets"
pub(crate) const MOST_BUDGETS_NAMED: usize = 8;

/// Unknown requirements that a message lists.
/// Why: as for [`MOST_BUDGETS_NAMED`].
/// Beyond: the message leaves out the others.
/// Page: docs/limits.md: "8 unknown requirements"
pub(crate) const MOST_UNKNOWN_NAMED: usize = 8;
