//! Tests the guarantee in a simulated cluster: API servers that notice changes late, replicas that renew late,
//! operators that crash between any two writes or that both consider themselves the leader, and administrators who
//! delete and restore Secrets.

use super::*;
use std::cell::RefCell;
use std::collections::BTreeMap;

const DAY: SignedDuration = SignedDuration::from_hours(24);
const SETTLE: SignedDuration = SignedDuration::from_secs(30);

fn start() -> Timestamp {
    "2026-11-22T10:00:00Z".parse().unwrap()
}

fn policy() -> RotationPolicy {
    RotationPolicy { authority: DAY * 3652, leaf: DAY * 90, settle: SETTLE, names: vec!["webhook.svc".to_owned()] }
}

/// Pseudo-random numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }
}

/// A stored object with its resourceVersion.
#[derive(Clone, Default)]
struct Versioned<T> {
    version: u64,
    value: T,
}

impl<T> Versioned<T> {
    /// Writes the object, unless it has changed since it was read.
    fn write(&mut self, read: u64, value: T) -> bool {
        let fresh = self.version == read;
        if fresh {
            *self = Self { version: read + 1, value };
        }
        fresh
    }
}

/// The simulated cluster.
struct World {
    now: Timestamp,
    authority: Versioned<StoredAuthorities>,
    leaf: Versioned<Leaf>,
    configurations: [Versioned<Vec<u8>>; 2],
    /// All contents of each configuration with the time since when each of them is stored.
    announced: [Vec<(Timestamp, Vec<u8>)>; 2],
    /// How late each API server notices a change.
    lags: Vec<SignedDuration>,
    /// The certificate that each replica serves.
    replicas: Vec<Leaf>,
    /// Cache: whether a client that trusts the authority accepts the certificate. It is needed often and slow to
    /// compute.
    accepted: RefCell<BTreeMap<(Vec<u8>, Anchor), bool>>,
    /// All steps so far, for the message of a failed test.
    steps: Vec<String>,
}

/// A step that an operator has decided on. The objects may have changed since.
struct Intent {
    step: RotationStep,
    stored: StoredAuthorities,
    authority: u64,
    leaf: u64,
    configurations: [u64; 2],
    written: usize,
}

impl World {
    fn new(random: &mut Random) -> Self {
        let lags = (0..3).map(|_| SignedDuration::from_secs(random.below(30).cast_signed())).collect();
        Self {
            now: start(),
            authority: Versioned::default(),
            leaf: Versioned::default(),
            configurations: Default::default(),
            announced: [vec![(start(), Vec::new())], vec![(start(), Vec::new())]],
            lags,
            replicas: vec![Leaf::default(); 3],
            accepted: RefCell::default(),
            steps: Vec::new(),
        }
    }

    fn note(&mut self, what: impl Into<String>) {
        self.steps.push(format!("{} {}", self.now, what.into()));
    }

    /// Reads the configurations, then the Secrets, and decides on a step.
    fn decide(&self) -> Intent {
        let mut seen = Seen {
            stored: self.authority.value.clone(),
            leaf: self.leaf.value.clone(),
            bundles: self.configurations.iter().map(|one| one.value.clone()).collect(),
            replicas: None,
        };
        let mut step = next_step(&seen, &policy(), self.now);
        if step == RotationStep::Ask {
            let current = seen.stored.current.clone().unwrap();
            let refused = self.replicas.iter().any(|leaf| !self.accepts(current.anchor(), leaf));
            seen.replicas = Some(if refused { Replicas::Waiting("one".into()) } else { Replicas::Accepted });
            step = next_step(&seen, &policy(), self.now);
        }
        Intent {
            step,
            stored: seen.stored,
            authority: self.authority.version,
            leaf: self.leaf.version,
            configurations: [self.configurations[0].version, self.configurations[1].version],
            written: 0,
        }
    }

    /// Makes the next write of a step. Returns true if it was the last one.
    fn carry_out(&mut self, intent: &mut Intent) -> bool {
        let now = self.now;
        let done = match &intent.step {
            RotationStep::Publish(bundle) => {
                let which = intent.written;
                intent.written += 1;
                if !self.configurations[which].write(intent.configurations[which], bundle.clone()) {
                    return true;
                }
                self.announced[which].push((now, bundle.clone()));
                which == 1
            }
            RotationStep::Issue(_) => {
                let current = intent.stored.current.as_ref().unwrap();
                let leaf = current.issue(&policy().names, now, policy().leaf).unwrap();
                self.leaf.write(intent.leaf, leaf);
                true
            }
            RotationStep::Ask | RotationStep::Rest { .. } => true,
            step => {
                let made = matches!(step, RotationStep::Found(_) | RotationStep::Prepare(_))
                    .then(|| Authority::make(now, policy().authority).unwrap());
                self.authority.write(intent.authority, stored_after(&intent.stored, step, made, now));
                true
            }
        };
        let name: String = format!("{:?}", intent.step).chars().take_while(|c| c.is_alphabetic()).collect();
        self.note(name);
        done
    }

    /// Performs steps until nothing is left to do, like an operator that is not disturbed. Returns the number of steps.
    fn settle(&mut self) -> usize {
        for steps in 0..50 {
            let mut intent = self.decide();
            if matches!(intent.step, RotationStep::Rest { .. }) {
                return steps;
            }
            while !self.carry_out(&mut intent) {}
            self.check();
        }
        panic!("it does not come to rest:\n{}", self.steps.join("\n"));
    }

    fn rest(&self) -> (Option<Timestamp>, Option<String>) {
        match self.decide().step {
            RotationStep::Rest { until, waiting } => (until, waiting),
            step => panic!("{step:?}"),
        }
    }

    fn accepts(&self, anchor: &Anchor, leaf: &Leaf) -> bool {
        let young = leaf.until().is_none_or(|until| self.now < until) && !anchor.has_expired(self.now);
        let mut known = self.accepted.borrow_mut();
        let accepted = known.entry((leaf.chain.clone(), anchor.clone()));
        young && *accepted.or_insert_with(|| leaf.accepted_by(anchor, &policy().names, self.now).is_ok())
    }

    fn pass(&mut self, time: SignedDuration) {
        self.now += time;
    }

    fn renew_replicas(&mut self) {
        let leaf = self.leaf.value.clone();
        self.replicas.iter_mut().for_each(|shown| *shown = leaf.clone());
    }

    /// Checks the guarantee: every API server accepts every replica, however late it noticed the bundles.
    fn check(&self) {
        for (announced, lag) in
            self.announced.iter().flat_map(|announced| self.lags.iter().map(move |lag| (announced, *lag)))
        {
            let known = announced.iter().rev().find(|(since, _)| *since + lag <= self.now).or(announced.first());
            let trusted = Anchor::bundle(known.map(|(_, bundle)| bundle.as_slice()).unwrap_or_default());
            for leaf in &self.replicas {
                let accepted = trusted.iter().any(|anchor| self.accepts(anchor, leaf));
                assert!(accepted, "an API server that is {lag:?} late refuses a replica:\n{}", self.steps.join("\n"));
            }
        }
    }

    /// Returns a cluster in which the installation is finished and every API server has noticed the bundles.
    fn installed(random: &mut Random) -> Self {
        let mut world = Self::new(random);
        for _ in 0..20 {
            let mut intent = world.decide();
            while !world.carry_out(&mut intent) {}
        }
        world.renew_replicas();
        world.pass(SETTLE);
        world.check();
        world
    }

    fn current(&self) -> Authority {
        self.authority.value.current.clone().unwrap()
    }

    fn trusted(&self) -> Vec<Anchor> {
        Anchor::bundle(&self.configurations[0].value)
    }

    /// Completes a change of the authority, with enough time for each step.
    fn finish(&mut self) {
        self.settle();
        self.pass(SETTLE);
        self.settle();
        self.renew_replicas();
        self.settle();
        self.pass(SETTLE);
        self.check();
    }
}

#[test]
fn an_installation_gets_authority_bundle_and_certificate_at_once_and_then_rests_until_the_renewal() {
    let mut world = World::new(&mut Random(1));
    let steps: Vec<RotationStep> = (0..3)
        .map(|_| {
            let mut intent = world.decide();
            while !world.carry_out(&mut intent) {}
            intent.step
        })
        .collect();
    let why = "there is no usable one".to_owned();
    let bundle = world.current().anchor().pem().into_bytes();
    assert_eq!(
        steps,
        [RotationStep::Found(why), RotationStep::Publish(bundle), RotationStep::Issue("there is none".into())]
    );
    let (until, waiting) = world.rest();
    assert_eq!(waiting, None);
    let days = until.unwrap().duration_since(start()).as_hours() / 24;
    assert_eq!(days, 59, "a third of 90 days is left");
}

#[test]
fn a_certificate_is_renewed_when_a_third_of_its_life_is_left_and_the_authority_stays() {
    let mut world = World::installed(&mut Random(2));
    let (before, authority) = (world.leaf.value.clone(), world.current());
    world.pass(DAY * 59);
    assert_eq!(world.settle(), 0);
    world.pass(DAY);
    assert_eq!(world.settle(), 1);
    assert_ne!(world.leaf.value, before);
    assert_eq!(world.current(), authority);
    assert_eq!(world.trusted(), [authority.anchor().clone()]);
}

#[test]
fn an_authority_is_changed_without_a_failed_call() {
    let mut world = World::installed(&mut Random(3));
    let old = world.current();
    let renew_at = old.renew_at();
    world.now = renew_at;
    world.leaf.value = old.issue(&policy().names, renew_at, policy().leaf).unwrap();
    world.renew_replicas();
    world.settle();
    assert_eq!(world.current(), old, "the old one signs until API servers know the new one");
    assert_eq!(world.trusted().len(), 2);
    assert_eq!(world.rest().0, Some(renew_at + SETTLE));
    world.pass(SETTLE);
    world.settle();
    let new = world.current();
    assert_ne!(new, old);
    assert!(world.leaf.value.check(new.anchor(), &policy().names, world.now).is_ok());
    assert_eq!(world.rest().1, Some("one".to_owned()), "the replicas still show the old one");
    assert_eq!(world.trusted().len(), 2);
    world.renew_replicas();
    world.settle();
    assert_eq!(world.trusted(), [new.anchor().clone()]);
    assert_eq!(world.authority.value.next, None);
}

#[test]
fn whatever_is_found_in_the_secrets_ends_in_a_working_installation() {
    let stranger = Authority::make(start(), DAY * 3652).unwrap();
    type Change<'a> = &'a dyn Fn(&mut World);
    let changes: [(&str, Change<'_>); 6] = [
        ("the authority was deleted", &|world| world.authority.value = StoredAuthorities::default()),
        ("the certificate was deleted", &|world| world.leaf.value = Leaf::default()),
        ("both were deleted", &|world| {
            world.authority.value = StoredAuthorities::default();
            world.leaf.value = Leaf::default();
        }),
        ("another authority was put there", &|world| world.authority.value.current = Some(stranger.clone())),
        ("a stranger's certificate was put there", &|world| {
            world.leaf.value = stranger.issue(&policy().names, start(), DAY).unwrap();
        }),
        ("the authority was made by a clock that is far ahead", &|world| {
            world.authority.value.current = Some(Authority::make(start() + DAY * 400, DAY * 3652).unwrap());
        }),
    ];
    for (what, change) in changes {
        let mut world = World::installed(&mut Random(4));
        world.note(what);
        change(&mut world);
        world.finish();
        let current = world.current();
        assert_eq!(world.trusted(), [current.anchor().clone()], "{what}");
        assert!(world.leaf.value.check(current.anchor(), &policy().names, world.now).is_ok(), "{what}");
    }
}

#[test]
fn an_overwritten_bundle_is_written_again_and_the_announcement_is_repeated() {
    let mut world = World::installed(&mut Random(5));
    world.authority.value = StoredAuthorities::default();
    world.settle();
    assert!(world.authority.value.published.is_some());
    world.pass(SETTLE / 2);
    let old = Anchor::bundle(&world.announced[0][1].1)[0].pem().into_bytes();
    world.configurations[1].value = old.clone();
    world.announced[1].push((world.now, old));
    world.settle();
    assert_eq!(world.authority.value.published, Some(world.now), "announced since now");
    world.finish();
    assert_eq!(world.trusted(), [world.current().anchor().clone()]);
}

#[test]
fn a_replica_that_never_answers_keeps_the_old_authority_trusted_but_renews_nothing_less() {
    let mut world = World::installed(&mut Random(6));
    let old = world.current();
    world.authority.value = StoredAuthorities::default();
    world.settle();
    world.pass(SETTLE);
    world.settle();
    let new = world.current();
    for _ in 0..5 {
        world.pass(DAY * 20);
        let stuck = old.issue(&policy().names, world.now, DAY * 90).unwrap();
        world.renew_replicas();
        world.replicas[1] = stuck;
        world.settle();
        assert_eq!(world.trusted().len(), 2);
        assert!(world.leaf.value.check(new.anchor(), &policy().names, world.now).is_ok());
    }
    world.renew_replicas();
    world.settle();
    assert_eq!(world.trusted(), [new.anchor().clone()]);
}

#[test]
fn many_overlapping_changes_never_remove_the_authority_in_use() {
    let mut world = World::installed(&mut Random(7));
    for _ in 0..40 {
        world.authority.value = StoredAuthorities::default();
        world.settle();
        world.pass(SignedDuration::from_secs(1));
        world.check();
    }
    assert!(world.trusted().len() <= RETIRED + 1);
    world.finish();
    assert_eq!(world.trusted(), [world.current().anchor().clone()]);
}

#[test]
fn no_api_server_refuses_a_replica_whatever_happens_in_whatever_order() {
    for seed in 0..25 {
        let mut random = Random(seed);
        let mut world = World::installed(&mut random);
        world.note(format!("seed {seed}"));
        // Two operators that both consider themselves the leader.
        let mut intents: [Option<Intent>; 2] = [None, None];
        let mut backup = world.authority.value.clone();
        for _ in 0..250 {
            match random.below(100) {
                0..60 => {
                    let one = usize::from(random.below(8) == 0);
                    let mut intent = intents[one].take().unwrap_or_else(|| world.decide());
                    if !world.carry_out(&mut intent) && random.below(10) != 0 {
                        intents[one] = Some(intent);
                    }
                }
                60..64 => {
                    let one = usize::from(random.below(2) == 0);
                    intents[one] = Some(world.decide());
                }
                64..68 => intents = [None, None],
                68..80 => {
                    let replica = usize::try_from(random.below(3)).unwrap();
                    world.replicas[replica] =
                        if world.leaf.value.chain.is_empty() { continue } else { world.leaf.value.clone() };
                }
                80..95 => {
                    let seconds = random.below(20).cast_signed();
                    world.pass(SignedDuration::from_secs(seconds));
                }
                95 => {
                    world.note("the authority is deleted");
                    world.authority.version += 1;
                    world.authority.value = StoredAuthorities::default();
                }
                96 => {
                    world.note("the certificate is deleted");
                    world.leaf.version += 1;
                    world.leaf.value = Leaf::default();
                }
                97 => backup = world.authority.value.clone(),
                98 if intents.iter().all(Option::is_none) => {
                    world.note("the authority is restored from a backup");
                    world.authority.version += 1;
                    world.authority.value = backup.clone();
                }
                _ => world.pass(DAY / 4),
            }
            world.check();
        }
        world.finish();
        world.finish();
        assert_eq!(world.trusted(), [world.current().anchor().clone()], "seed {seed}");
    }
}
