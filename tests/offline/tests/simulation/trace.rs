//! The readable trace of a simulation.

use std::fmt::{Display, Formatter, Result};

/// Time, actor and message of each event.
#[derive(Default)]
pub struct Trace(Vec<(u64, String, String)>);

impl Trace {
    pub fn say(&mut self, at: u64, who: &str, what: String) {
        self.0.push((at, who.to_owned(), what));
    }

    /// Returns the number of events.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl Display for Trace {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        for (at, who, what) in &self.0 {
            writeln!(f, "{:>9.3}  {who:<18} {what}", *at as f64 / 1000.0)?;
        }
        Ok(())
    }
}
