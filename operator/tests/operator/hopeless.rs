//! A thousand gangs without hope make nobody else wait: counted in passes of the arbiter, which `make bench-operator` measures in
//! milliseconds.

#[path = "../../benches/hopeless/crowd.rs"]
mod crowd;

use crowd::{HOPELESS, World};

/// Passes in which a gang that fits is decided about, gets its places, and is released.
const PASSES: usize = 3;

/// Row 18 of "Nothing waits for ever".
#[test]
fn a_gang_that_fits_is_released_as_soon_as_alone_although_a_thousand_wait_and_pods_come_and_go() {
    let mut world = World::full();
    world.pass();
    for round in 1..=10 {
        let member = world.come();
        let passes = (1..=PASSES).map(|pass| {
            world.change(round * 50 + pass * 10);
            world.pass()
        });
        let released: Vec<Vec<String>> = passes.collect();
        assert_eq!(released.concat(), [member.as_str()], "the gang that fits, and none of {HOPELESS} others");
        world.go(&member);
    }
}
