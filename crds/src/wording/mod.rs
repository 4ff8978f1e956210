//! The catalogue of sentences that users read. `tests/wording.txt` has every sentence of this folder with counts of 0, 1 and 2.

mod counts;
pub mod sentence;

pub use counts::{agree, counted, part_of, pods};
pub use sentence::{Names, Sentence};
