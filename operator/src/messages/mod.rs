//! What goes into the arbiter and comes out of it, as plain data: changes of objects, commands, and the results of commands.

pub mod capacity;
pub mod command;
pub mod input;
pub mod report;
