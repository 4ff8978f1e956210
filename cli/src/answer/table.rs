//! The answer as tables: its victims, its placements, and how it was found.

use super::{GraceLine, PlacementLine, PlanAnswer, VictimLine};
use crate::output::style::{BAD, COSTS, GOOD, HEAD, paint};
use crate::output::table::{joined_names, line, table};
use std::collections::BTreeMap;

/// Returns the answer of `plan` as tables with sentences, wrapped at `width` characters (`None` for no limit). `explain` adds the steps
/// of the decision.
pub(super) fn plan(answer: &PlanAnswer, explain: bool, width: Option<u16>) -> String {
    let mut out = String::new();
    if answer.decisions.is_empty() {
        append_decision(&mut out, answer, explain, width);
    } else {
        for decision in &answer.decisions {
            append_decision(&mut out, decision, explain, width);
            out.push('\n');
        }
        line(&mut out, width, &paint(HEAD, "All together"), &answer.message);
    }
    for text in &answer.not_modeled {
        line(&mut out, width, "Not modelled:", &format!("{text}."));
    }
    for note in &answer.notes {
        line(&mut out, width, "Note:", note);
    }
    out
}

/// Appends one decision with its placements and victims to `out`. `explain` adds its steps; `width` is the limit of a line in
/// characters (`None`: no limit).
fn append_decision(out: &mut String, answer: &PlanAnswer, explain: bool, width: Option<u16>) {
    let style = match answer {
        PlanAnswer { schedulable: false, .. } => BAD,
        PlanAnswer { preemption_needed: true, .. } => COSTS,
        _ => GOOD,
    };
    let preemptor = match answer.preemptor.as_str() {
        "" => String::new(),
        preemptor => format!("{} (priority {}): ", paint(HEAD, preemptor), answer.priority),
    };
    let verdict = match answer.reason {
        Some(reason) => format!("{} {}", paint(style, reason), answer.message),
        None => paint(style, &answer.message),
    };
    line(out, width, "", &format!("{preemptor}{verdict}"));
    if !answer.victims.is_empty() {
        out.push('\n');
        out.push_str(&victims(&answer.victims, width));
    }
    if let Some(rescue) = &answer.critical_addon {
        line(out, width, "Kept:", &rescue.kept);
    }
    if !answer.awaited.is_empty() {
        line(out, width, "Leaving anyway:", &joined_names(answer.awaited.iter().map(String::as_str)));
    }
    if !answer.placements.is_empty() {
        out.push('\n');
        out.push_str(&placements(&answer.placements, width));
    }
    if !answer.changes.is_empty() {
        out.push('\n');
        line(out, width, "", &paint(HEAD, "What would change it"));
        for change in &answer.changes {
            line(out, width, "  -", change);
        }
    }
    if explain && !(answer.trace.is_empty() && answer.victims.is_empty()) {
        out.push('\n');
        line(out, width, "", &paint(HEAD, format!("How it was found ({})", answer.strategy)));
        for step in &answer.trace {
            line(out, width, "  -", step);
        }
        for victim in &answer.victims {
            line(out, width, "  -", &format!("{}: {}", victim.reference(), victim.why));
        }
        for unit in &answer.not_evicted {
            line(out, width, "  -", &format!("{} stays: {}", unit.reference(), unit.why));
        }
    }
}

/// Returns a table with a row for each victim, at most `width` characters wide (`None` for no limit).
pub(crate) fn victims(victims: &[VictimLine], width: Option<u16>) -> String {
    let mut rows = vec![["VICTIM", "PRIORITY", "OWNER", "LOSES", "NODES", "BUDGET"].map(str::to_owned).to_vec()];
    rows.extend(victims.iter().map(|victim| {
        let grace = (!victim.graces.is_empty()).then(|| victim.grace());
        let cells = [
            victim.reference(),
            victim.priority.to_string(),
            victim.owner.clone().unwrap_or_else(|| "-".to_owned()),
            victim.loss(),
            joined_names(victim.nodes.iter().map(String::as_str)),
            if victim.violates_budget { "violated" } else { "kept" }.to_owned(),
        ];
        cells.into_iter().chain(grace).collect()
    }));
    if victims.iter().any(|victim| !victim.graces.is_empty()) {
        rows[0].push("GRACE".to_owned());
    }
    table(rows, width)
}

/// Returns a table of the nodes with the pods that are placed there, at most `width` characters wide (`None` for no limit).
fn placements(placements: &[PlacementLine], width: Option<u16>) -> String {
    let mut nodes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for placement in placements {
        nodes.entry(&placement.node).or_default().push(&placement.pod);
    }
    let mut rows = vec![["NODE", "PODS", "PLACED"].map(str::to_owned).to_vec()];
    rows.extend(
        nodes
            .iter()
            .map(|(node, pods)| vec![(*node).to_owned(), pods.len().to_string(), joined_names(pods.iter().copied())]),
    );
    table(rows, width)
}

impl VictimLine {
    /// Returns the grace periods of the victim's pods in seconds, in the spec and as the eviction grants them: `3600 s, cut to 10 s`.
    fn grace(&self) -> String {
        let mut parts: Vec<(String, usize)> = Vec::new();
        for GraceLine { seconds, given, .. } in &self.graces {
            let text = if seconds == given { format!("{seconds} s") } else { format!("{seconds} s, cut to {given} s") };
            match parts.iter_mut().find(|(other, _)| *other == text) {
                Some((_, count)) => *count += 1,
                None => parts.push((text, 1)),
            }
        }
        let one =
            |(text, count): &(String, usize)| if *count == 1 { text.clone() } else { format!("{count} of {text}") };
        parts.iter().map(one).collect::<Vec<_>>().join("; ")
    }
}
