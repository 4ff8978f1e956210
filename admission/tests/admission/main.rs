//! Tests of the rules of admission that need no webhook. Those with an `AdmissionReview` around them are tests of the
//! webhook (`webhook/tests/webhook/admission`).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed assertion panics")]

mod layers;
mod wording;
