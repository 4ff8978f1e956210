//! The answers of a real API server to the operator's requests are those in `operator/src/calls/answers.yaml`, from which the operator's
//! classification of answers is tested. `GIVEWAY_WRITE=1 make e2e TEST=real_answers::` records them again.

mod requests;
mod situations;
mod table;

use giveway_tests::control_plane::Version;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::world::World;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        own:
            the_api_server_answers_as_in_the_table;
    ]
}

async fn the_api_server_answers_as_in_the_table() {
    let mut world = World::builder().bare().kubernetes(Version::NEWEST).start().await;
    let seen = situations::record(&mut world).await;
    table::compare(&seen);
}
