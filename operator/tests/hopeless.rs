//! A thousand gangs without hope make nobody else wait: counted in passes of the arbiter, which `make bench-operator` measures in
//! milliseconds.
// Tests end on the spot, with a message, when an expectation fails.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../benches/hopeless/crowd.rs"]
mod crowd;

use crowd::{HOPELESS, World};

/// Row 18 of "Nothing waits for ever": a pass nominates, the next one releases, however many others wait and whatever changes.
#[test]
fn a_gang_that_fits_is_released_in_the_second_pass_although_a_thousand_wait_and_pods_come_and_go() {
    let mut world = World::full();
    world.pass();
    for round in 1..=10 {
        world.change(round * 50);
        let member = world.come();
        assert!(world.pass().is_empty(), "nobody is released before its place is reserved");
        world.change(round * 50 + 10);
        assert_eq!(world.pass(), [member.as_str()], "the gang that fits, and none of {HOPELESS} others");
        world.go(&member);
    }
}
