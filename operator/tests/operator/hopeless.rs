//! Gangs that do not fit delay no other gang. This test counts passes of the arbiter; `make bench-operator` measures milliseconds.

#[path = "../../benches/arbiter/hopeless.rs"]
mod crowd;

use crate::world;
use crowd::{HOPELESS, Hopeless};

/// Number of passes in which a gang that fits is decided, gets its placements, and is ungated.
const PASSES: usize = 3;

/// The pending gangs must not delay a gang that fits.
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
