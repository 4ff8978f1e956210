//! The events of a simulation, drawn from its seed: a small cluster, workloads with their start times, and all events from outside.

use crate::simulation::object::Kind;
use crate::simulation::owners::{Bond, Owner};
use crate::simulation::world::denials::{self, Denial};
use giveway_crds::mode::Mode;
use giveway_tests::random::Random;

/// An event from outside.
#[derive(Clone, Debug)]
pub enum Turn {
    /// An owner is created, by its number.
    Begin(usize),
    /// An owner and its group are deleted.
    End(usize),
    /// An owner gets another number of pods.
    Scale(usize, usize),
    /// A user deletes a pod of an owner.
    DeletePod(usize),
    /// A node is cordoned or uncordoned.
    Cordon(usize, bool),
    /// A node is removed with its pods.
    Unplug(usize),
    /// A node is added.
    Plug(usize),
    /// A pod is created with a node name, without a scheduler.
    Occupy(usize),
    /// A budget is created for the pods of an owner; it requires this number of healthy pods.
    Budget(usize, usize),
    /// The budget for the pods of an owner is deleted.
    NoBudget(usize),
    /// kube-scheduler preempts a pod of an owner.
    Preempt(usize),
    /// kube-scheduler stops or resumes binding one of the pods of an owner, for a reason unknown to the planner.
    Refuse(usize, bool),
    /// A user withdraws a nomination.
    Forget,
    /// A user changes the mode of Giveway.
    Switch(Mode),
    /// A user adds or removes the protection of the namespace.
    Protect(bool),
    /// A gang gets another `minCount`.
    MinCount(usize, usize),
    /// A user deletes a PodGroup, but not its pods.
    DeleteGroup(usize),
    /// An administrator deletes a Preemption in flight, which ends its plan.
    DeletePlan,
    /// A process crashes.
    Crash(usize),
    /// A process ends and releases its lease.
    Stop(usize),
    /// A process is paused for this number of milliseconds.
    Pause(usize, u64),
    /// The watches of a kind lag by this number of milliseconds.
    Lag(Kind, u64),
    /// A watch is interrupted and starts again with a list.
    Relist(Kind),
    /// The operator does not reach the API server for this number of milliseconds.
    Cut(u64),
    /// The leader crashes at the call with this number from now on, before or after the call is carried out.
    CrashAtCall(usize, bool),
    /// An owner is created whose gang fits on free capacity while a plan is delayed.
    Meanwhile(usize),
    /// That gang should have started already.
    Started(usize),
    /// A node becomes not ready, or ready again.
    Outage(usize, bool),
    /// The next plan that evicts a pod of a PodGroup ends before it has evicted the others.
    Interrupt(Interruption),
    /// A critical add-on is created.
    AddOn(usize),
    /// Admission rejects calls of the operator from now on.
    Deny(Denial),
}

/// How a plan ends between two evictions.
#[derive(Clone, Copy, Debug)]
pub enum Interruption {
    /// An administrator deletes its Preemption.
    PlanDeleted,
    /// Its preemptor is deleted.
    PreemptorDeleted,
    /// A node of its placements is cordoned.
    NodeCordoned,
}

impl Turn {
    /// Returns the kind of fault, if the event is one that is counted.
    pub fn fault(&self) -> Option<&'static str> {
        Some(match self {
            Self::Crash(_) | Self::CrashAtCall(..) => "crashes",
            Self::Stop(_) => "hand-overs",
            Self::Pause(..) => "pauses",
            Self::Lag(..) => "lagging watches",
            Self::Relist(_) => "interrupted watches",
            Self::Cut(_) => "partitions",
            Self::Switch(mode) if !mode.evicts() => "switches",
            Self::Protect(true) => "protections",
            Self::MinCount(..) => "changed minCounts",
            Self::DeleteGroup(_) => "deleted groups",
            Self::DeletePlan => "deleted plans",
            Self::Refuse(_, true) => "schedulers that do not bind",
            Self::Outage(_, true) => "node outages",
            Self::AddOn(_) => "critical add-ons",
            Self::Deny(_) => "denials",
            _ => return None,
        })
    }
}

/// The plan of a simulation.
pub struct Plot {
    /// Number of CPUs of each node.
    pub nodes: Vec<usize>,
    pub owners: Vec<Owner>,
    /// The events with their times in milliseconds.
    pub turns: Vec<(u64, Turn)>,
}

/// Time of the last event from outside, in milliseconds.
pub const END: u64 = 90_000;

/// One seed in this number has limits on evictions per minute, and critical add-ons.
pub const LIMITED: u64 = 5;

impl Plot {
    /// Creates the plot of a seed.
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed, 1, 0);
        let nodes: Vec<usize> = (0..2 + random.below(4)).map(|_| 2 + random.below(5)).collect();
        let mut plot = Self { nodes, owners: Vec::new(), turns: Vec::new() };
        plot.fill(&mut random);
        plot.preemptors(&mut random);
        plot.disturb(&mut random);
        plot.trouble(&mut random);
        plot.switch(&mut Random::new(seed, 7, 0));
        plot.refuse(&mut Random::new(seed, 9, 0));
        plot.protect(&mut Random::new(seed, 10, 0));
        plot.groups(&mut Random::new(seed, 11, 0));
        plot.fall(&mut Random::new(seed, 12, 0));
        plot.delete_plans(&mut Random::new(seed, 13, 0));
        plot.interrupt(&mut Random::new(seed, 14, 0));
        plot.outages(&mut Random::new(seed, 15, 0));
        if seed.is_multiple_of(LIMITED) {
            plot.evict_for_other_causes(&mut Random::new(seed, 16, 0));
        }
        plot.delay(&mut Random::new(seed, 17, 0));
        plot.turns.extend(denials::turns(&mut Random::new(seed, 18, 0), plot.owners.len()));
        plot
    }

    fn come(&mut self, at: u64, owner: Owner) -> usize {
        self.owners.push(owner);
        self.turns.push((at, Turn::Begin(self.owners.len() - 1)));
        self.owners.len() - 1
    }

    /// Creates workloads that fill most of the capacity.
    fn fill(&mut self, random: &mut Random) {
        let size: usize = self.nodes.iter().sum();
        let mut left = size * (70 + random.below(50)) / 100;
        while left > 0 && self.owners.len() < 5 {
            let cpus = 1 + random.below(2);
            let pods = (1 + random.below(4)).min((left / cpus).max(1));
            let priority = [0, 10, 50, 100][random.below(4)];
            let mut owner = owner(random, &format!("low{}", self.owners.len()), pods, cpus, priority);
            if matches!(owner.bond, Bond::Gang { .. }) && random.percent(60) {
                owner.bond = Bond::Gang { min_count: pods, whole: true };
            }
            let guarded = random.percent(25);
            if guarded && random.percent(60) {
                owner.threshold = Some([150, 1000][random.below(2)]);
            }
            left = left.saturating_sub(pods * cpus);
            let index = self.come(0, owner);
            if guarded {
                self.turns.push((0, Turn::Budget(index, random.below(pods + 1))));
            }
        }
    }

    fn preemptors(&mut self, random: &mut Random) {
        let at = 15_000 + random.below(5_000) as u64;
        for index in 0..1 + random.below(3) {
            let (pods, cpus) = (1 + random.below(5), 1 + random.below(3));
            let priority = [100, 200, 200, 300][random.below(4)];
            let owner = owner(random, &format!("high{index}"), pods, cpus, priority);
            let later = if random.percent(50) { random.below(2_000) } else { random.below(30_000) };
            self.come(at + later as u64, owner);
        }
    }

    /// Adds events of other users and controllers, in half of the simulations.
    fn disturb(&mut self, random: &mut Random) {
        if random.percent(50) {
            return;
        }
        for _ in 0..1 + random.below(4) {
            let (owner, node) = (random.below(self.owners.len()), random.below(self.nodes.len()));
            let turn = match random.below(14) {
                0 => Turn::End(owner),
                1 => Turn::Scale(owner, random.below(6)),
                2..=4 => Turn::DeletePod(owner),
                5 => Turn::Cordon(node, true),
                6 => Turn::Unplug(node),
                7 => Turn::Plug(2 + random.below(5)),
                8 => Turn::Occupy(node),
                9 => Turn::Budget(owner, random.below(4)),
                10 => Turn::NoBudget(owner),
                11 => Turn::Preempt(owner),
                12 => Turn::Forget,
                _ => Turn::Cordon(node, false),
            };
            let at = moment(random);
            self.turns.push((at, turn));
        }
    }

    /// For a while Giveway only observes or is switched off, in one of five simulations without a preemption by kube-scheduler.
    fn switch(&mut self, random: &mut Random) {
        if random.percent(80) || self.turns.iter().any(|(_, turn)| matches!(turn, Turn::Preempt(_))) {
            return;
        }
        let at = 15_000 + random.below(10_000) as u64;
        let until = at + 1 + random.below(20_000) as u64;
        let mode = if random.percent(70) { Mode::Observe } else { Mode::Off };
        self.turns.extend([(at, Turn::Switch(mode)), (until, Turn::Switch(Mode::Enforce))]);
    }

    /// Protects the namespace for a while, in one of ten simulations.
    fn protect(&mut self, random: &mut Random) {
        if random.percent(90) {
            return;
        }
        let at = 15_000 + random.below(15_000) as u64;
        let until = at + 1 + random.below(30_000) as u64;
        self.turns.extend([(at, Turn::Protect(true)), (until, Turn::Protect(false))]);
    }

    /// Changes groups, in one of five simulations.
    fn groups(&mut self, random: &mut Random) {
        if random.percent(80) {
            return;
        }
        let owner = random.below(self.owners.len());
        let (at, most) = (moment(random), self.owners[owner].pods + 1);
        let turn =
            if random.percent(70) { Turn::MinCount(owner, 1 + random.below(most)) } else { Turn::DeleteGroup(owner) };
        self.turns.push((at, turn));
    }

    /// kube-scheduler preempts a pod of a PodGroup in mode `PodGroup`, in one of eight simulations without a change of Giveway's mode.
    fn fall(&mut self, random: &mut Random) {
        let whole = |owner: &Owner| matches!(owner.bond, Bond::Gang { whole: true, .. }) && owner.pods > 1;
        let whole: Vec<usize> = (0..self.owners.len()).filter(|index| whole(&self.owners[*index])).collect();
        let switched = self.turns.iter().any(|(_, turn)| matches!(turn, Turn::Switch(_)));
        if whole.is_empty() || switched || random.percent(87) {
            return;
        }
        let owner = whole[random.below(whole.len())];
        self.turns.push((10_000 + random.below(40_000) as u64, Turn::Preempt(owner)));
    }

    /// For a while kube-scheduler does not bind a member of a gang, in one of five simulations.
    fn refuse(&mut self, random: &mut Random) {
        let gang = |owner: &Owner| matches!(owner.bond, Bond::Gang { .. }) && owner.pods > 1;
        let gangs: Vec<usize> = (0..self.owners.len()).filter(|index| gang(&self.owners[*index])).collect();
        if gangs.is_empty() || random.percent(80) {
            return;
        }
        // Mostly a preemptor: the last owners are preemptors.
        let index = if random.percent(70) { gangs[gangs.len() - 1] } else { gangs[random.below(gangs.len())] };
        let at = random.below(30_000) as u64;
        let until = at + 10_000 + random.below(70_000) as u64;
        self.turns.extend([(at, Turn::Refuse(index, true)), (until, Turn::Refuse(index, false))]);
    }

    /// An administrator deletes plans in flight, in one of eight simulations.
    fn delete_plans(&mut self, random: &mut Random) {
        if random.percent(87) {
            return;
        }
        for _ in 0..1 + random.below(3) {
            self.turns.push((moment(random), Turn::DeletePlan));
        }
    }

    /// Ends a plan between the evictions of the pods of a PodGroup, in one of four simulations.
    fn interrupt(&mut self, random: &mut Random) {
        if random.percent(75) {
            return;
        }
        let how = [Interruption::PlanDeleted, Interruption::PreemptorDeleted, Interruption::NodeCordoned];
        self.turns.push((10_000, Turn::Interrupt(how[random.below(how.len())])));
    }

    /// A node is not ready for a while, in one of four simulations: mostly for a shorter time than `--node-outage-grace`.
    fn outages(&mut self, random: &mut Random) {
        if random.percent(75) {
            return;
        }
        let node = random.below(self.nodes.len());
        let at = 16_000 + random.below(25_000) as u64;
        let time = if random.percent(75) { 15_000 + random.below(30_000) } else { 75_000 + random.below(25_000) };
        self.turns.extend([(at, Turn::Outage(node, true)), (at + time as u64, Turn::Outage(node, false))]);
    }

    /// Adds evictions of other causes than plans for workloads: for a critical add-on, and after a preemption by kube-scheduler.
    fn evict_for_other_causes(&mut self, random: &mut Random) {
        if random.percent(60) {
            let at = 2_000 + random.below(20_000) as u64;
            self.turns.push((at, Turn::AddOn(1 + random.below(2))));
        }
        let whole = |owner: &Owner| matches!(owner.bond, Bond::Gang { whole: true, .. }) && owner.pods > 1;
        let whole: Vec<usize> = (0..self.owners.len()).filter(|index| whole(&self.owners[*index])).collect();
        let switched = self.turns.iter().any(|(_, turn)| matches!(turn, Turn::Switch(_)));
        if !whole.is_empty() && !switched && random.percent(50) {
            let at = 12_000 + random.below(15_000) as u64;
            self.turns.push((at, Turn::Preempt(whole[random.below(whole.len())])));
        }
    }

    /// Delays the plans of a gang, in one of four simulations with a preempting gang. Meanwhile another pod may use capacity on a node, and
    /// a gang of the same or a lower priority begins.
    fn delay(&mut self, random: &mut Random) {
        let delayed = |owner: &Owner| matches!(owner.bond, Bond::Gang { .. }) && owner.name.starts_with("high");
        let gangs: Vec<usize> = (0..self.owners.len()).filter(|index| delayed(&self.owners[*index])).collect();
        if gangs.is_empty() || random.percent(75) {
            return;
        }
        let index = gangs[random.below(gangs.len())];
        let seconds = 10 + random.below(16);
        self.owners[index].delay = seconds as u64;
        let begins = |turn: &Turn| matches!(turn, Turn::Begin(owner) if *owner == index);
        let begin = self.turns.iter().find(|(_, turn)| begins(turn)).map_or(0, |(at, _)| *at);
        if random.percent(50) {
            let at = begin + 1_000 + random.below(seconds * 1_000 - 2_000) as u64;
            self.turns.push((at, Turn::Occupy(random.below(self.nodes.len()))));
        }
        let (pods, lower) = (1 + random.below(2), [0, 0, 50][random.below(3)]);
        let priority = self.owners[index].priority - lower;
        let mut gang = owner(random, "meanwhile", pods, 1, priority);
        gang.bond = Bond::Gang { min_count: pods, whole: false };
        self.owners.push(gang);
        let at = begin + 1_000 + random.below(seconds * 1_000 - 8_000) as u64;
        self.turns.push((at, Turn::Meanwhile(self.owners.len() - 1)));
    }

    /// Adds faults of processes and watches, in two of three simulations.
    fn trouble(&mut self, random: &mut Random) {
        if random.percent(33) {
            return;
        }
        for _ in 0..1 + random.below(4) {
            let replica = random.below(2);
            let turn = match random.below(10) {
                0 => Turn::Crash(replica),
                1 => Turn::Stop(replica),
                2 => Turn::Pause(replica, 1_000 + random.below(30_000) as u64),
                3 | 4 => Turn::Lag(Kind::ALL[random.below(5)], 500 + random.below(8_000) as u64),
                5 => Turn::Relist(Kind::ALL[random.below(5)]),
                6 => Turn::Cut(1_000 + random.below(25_000) as u64),
                _ => Turn::CrashAtCall(random.below(40), random.percent(50)),
            };
            let at = moment(random);
            self.turns.push((at, turn));
        }
    }
}

/// Returns a time for an event: mostly while plans of preemptors are in flight.
fn moment(random: &mut Random) -> u64 {
    match random.percent(70) {
        true => 15_000 + random.below(20_000) as u64,
        false => random.below(END as usize) as u64,
    }
}

fn owner(random: &mut Random, name: &str, pods: usize, cpus: usize, priority: i32) -> Owner {
    let bond = match random.below(10) {
        0..=2 => Bond::Single,
        3 => Bond::Basic,
        _ => Bond::Gang { min_count: (pods - random.below(2)).max(1), whole: random.percent(60) },
    };
    Owner {
        name: name.to_owned(),
        bond,
        pods,
        cpus,
        priority,
        threshold: None,
        grace: [0, 1, 5, 30][random.below(4)],
        delay: 0,
        managed: matches!(bond, Bond::Single) || random.percent(60),
        stateful: random.percent(40),
        deleted: false,
        made: 0,
    }
}
