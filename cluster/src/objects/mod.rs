//! The objects that the programs read: of each kind only the [fields] in the [table of kinds](kinds), decoded while the text arrives.

pub mod decoded_object;
pub mod document;
pub mod fields;
mod kept_text;
pub mod kinds;
pub mod mark;
mod scalars;

pub use decoded_object::DecodedObject;
pub use kinds::{KindFields, ReadObject, TrimmedObject};
