//! Gangs that do not fit delay no other gang: counted in passes of the arbiter, which `make bench-operator` measures in milliseconds.

#[path = "../../benches/arbiter/hopeless.rs"]
mod crowd;
#[path = "../../benches/arbiter/world.rs"]
mod world;

use crowd::{HOPELESS, Hopeless};

/// Passes in which a gang that fits is decided about, gets its placement, and is ungated.
const PASSES: usize = 3;

/// Row 18 of "Nothing waits for ever".
#[test]
fn a_gang_that_fits_is_ungated_as_soon_as_alone_although_a_thousand_wait_and_pods_come_and_go() {
    let mut all = Hopeless::new();
    all.pass();
    for round in 1..=10 {
        let member = all.come();
        let passes = (1..=PASSES).map(|pass| {
            all.change(round * 50 + pass * 10);
            all.pass()
        });
        let ungated: Vec<Vec<String>> = passes.collect();
        assert_eq!(ungated.concat(), [member.as_str()], "the gang that fits, and none of {HOPELESS} others");
        all.go(&member);
    }
}
