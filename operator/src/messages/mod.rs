//! The inputs and outputs of the arbiter, as plain data: changes of objects, commands, the results of commands, and the state of
//! calls whose result is not known yet.

pub mod call;
pub mod call_key;
pub mod capacity;
pub mod command;
pub mod input;
pub mod report;
