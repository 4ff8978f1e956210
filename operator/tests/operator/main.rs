//! Tests of the operator through its public interface, and of its module layers. They share one binary, which is linked once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed assertion panics")]

mod breakers;
mod budgets;
mod departures;
mod driven;
mod event_times;
mod history;
mod hopeless;
mod in_flight;
mod layers;
mod liveness;
mod log;
mod observed;
mod overtaking;
mod rejections;
mod scheduler;
mod sentences;
mod standby;
#[path = "../../benches/arbiter/world.rs"]
mod world;
