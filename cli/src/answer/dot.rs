//! The answer as a Graphviz graph: preemptors, their nodes, and the victims there.

use super::PlanAnswer;
use giveway_crds::wording::pods;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Returns the answer of `plan` as a graph in the DOT language of Graphviz: preemptors, their nodes, and the victims there.
pub(super) fn graph(answer: &PlanAnswer) -> String {
    let mut out = String::from("digraph giveway {\n  rankdir=LR;\n  node [shape=box];\n");
    let parts = if answer.decisions.is_empty() { std::slice::from_ref(answer) } else { answer.decisions.as_slice() };
    let mut nodes: BTreeMap<&str, ()> = BTreeMap::new();
    let mut edges = String::new();
    for part in parts.iter().filter(|part| !part.preemptor.is_empty()) {
        let colour = match part {
            PlanAnswer { schedulable: false, .. } => "red",
            PlanAnswer { preemption_needed: true, .. } => "orange",
            _ => "darkgreen",
        };
        let step = part.critical_addon.as_ref().map(|rescue| format!("\\nstep {}", rescue.step)).unwrap_or_default();
        let label = format!("{}\\npriority {}{step}", escape(&part.preemptor), part.priority);
        let _ = writeln!(out, "  \"{}\" [label=\"{label}\", color={colour}];", escape(&part.preemptor));
        let mut placed: BTreeMap<&str, usize> = BTreeMap::new();
        for placement in &part.placements {
            *placed.entry(&placement.node).or_default() += 1;
        }
        for (node, count) in placed {
            nodes.insert(node, ());
            let (from, to) = (escape(&part.preemptor), escape(node));
            let _ = writeln!(edges, "  \"{from}\" -> \"node/{to}\" [label=\"{}\", color={colour}];", pods(count));
        }
        for victim in &part.victims {
            let name = escape(&victim.reference());
            let loss = escape(&victim.loss());
            let _ = writeln!(
                out,
                "  \"{name}\" [label=\"{name}\\npriority {}\\n{loss}\", color=gray, style=dashed];",
                victim.priority
            );
            for node in &victim.nodes {
                nodes.insert(node, ());
                let _ = writeln!(edges, "  \"node/{}\" -> \"{name}\" [label=\"leaves\", style=dashed];", escape(node));
            }
        }
    }
    for node in nodes.keys() {
        let node = escape(node);
        let _ = writeln!(out, "  \"node/{node}\" [label=\"{node}\", shape=ellipse];");
    }
    out + &edges + "}\n"
}

/// Escapes backslashes and quotation marks of a text for a quoted string in the DOT language.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}
