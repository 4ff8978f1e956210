//! What `top` shows, as a pure function of the snapshot, of the time and of the size of the terminal.

use crate::history;
use crate::output::style::{BAD, COSTS, HEAD, paint};
use crate::output::{table, tame};
use crate::overview::usage::Capacity;
use crate::overview::{Revision, Snapshot, queue};
use crate::why::age;
use anstream::adapter::strip_str;
use anstyle::Style;
use giveway_planner::quantity;
use k8s_openapi::jiff::Timestamp;

/// Maximum number of resources, the scarcest first.
const RESOURCES: usize = 3;

/// Maximum number of lines of an error.
const OF_AN_ERROR: usize = 3;

/// What fits; `None` is without a limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScreenSize {
    /// Number of columns.
    pub(super) width: Option<u16>,
    /// Number of lines.
    pub(super) height: Option<u16>,
}

/// Lines that are cut to the width.
struct Screen {
    width: Option<u16>,
    lines: Vec<String>,
}

/// Returns what `top` shows: API server `server` and time of the read, notes on what is hidden, the capacity, the plans in progress,
/// and the queue in the lines that are left. `shown` is the revision of `snapshot`; ages are those at `now`.
pub(super) fn text(snapshot: &Snapshot, shown: &Revision, server: &str, now: Timestamp, size: ScreenSize) -> String {
    // The cursor stays on the line below the text.
    let height = size.height.map_or(usize::MAX, |height| usize::from(height).saturating_sub(1));
    let mut screen = Screen { width: size.width, lines: Vec::new() };
    screen.head(server, shown, now);
    screen.notes(&shown.notes, (height / 4).max(2));
    screen.capacity(snapshot);
    let plans = history::in_progress(&snapshot.world, now);
    if plans.len() > 1 {
        screen.table(plans, height / 8 + 1, "history");
    }
    screen.queue(snapshot, now, height);
    screen.lines.truncate(height);
    screen.lines.into_iter().map(|line| line + "\n").collect()
}

impl Screen {
    /// Adds to the screen the first lines: the API server, when the cluster was read, and an error if it cannot be read now.
    fn head(&mut self, server: &str, shown: &Revision, now: Timestamp) {
        let read_at = shown.read_at.0.strftime("%Y-%m-%dT%H:%M:%SZ");
        self.line(HEAD, &format!("Cluster {server}, read at {read_at}"));
        if let Some(problem) = &shown.problem {
            let ago = age(now, shown.read_at.0);
            let lines =
                self.wrapped("", &format!("The cluster cannot be read; shown is its state of {ago} ago: {problem}"));
            lines.iter().take(OF_AN_ERROR).for_each(|line| self.line(BAD, line));
        }
    }

    /// Adds to the screen the notes in at most `most` lines; the last of them says that notes are left out, if some are.
    fn notes(&mut self, notes: &[String], most: usize) {
        let mut lines: Vec<String> = notes.iter().flat_map(|note| self.wrapped("note:", note)).collect();
        if lines.len() > most {
            lines.truncate(most.saturating_sub(1));
            lines.push("Further notes are not shown: `kubectl giveway top --once` prints all.".to_owned());
        }
        lines.iter().for_each(|line| self.line(COSTS, line));
    }

    /// Adds to the screen the table with capacity, requests and free amount of the scarcest resources on all nodes.
    fn capacity(&mut self, snapshot: &Snapshot) {
        let priority = snapshot.highest_priority();
        let capacity = Capacity::of(&snapshot.world.cluster, priority);
        let freeable = format!("COULD BE FREED FOR PRIORITY {priority}");
        let head = ["RESOURCE", "CAPACITY", "REQUESTED", "FREE", freeable.as_str()];
        let mut rows = vec![Vec::from(head.map(str::to_owned))];
        rows.extend(capacity.scarcest().into_iter().take(RESOURCES).map(|resource| {
            let usage = &resource.usage;
            let amounts = [usage.capacity, usage.used(), usage.free, usage.freeable];
            let cells = amounts.map(|one| amount(resource.name, one));
            std::iter::once(resource.name.to_owned()).chain(cells).collect::<Vec<String>>()
        }));
        if rows.len() > 1 {
            self.table(rows, RESOURCES, "ui");
        } else {
            self.sentence("No node is known.");
        }
    }

    /// Adds to the screen the table of pending groups and pods in the lines that are left of `height`, with ages at `now`.
    fn queue(&mut self, snapshot: &Snapshot, now: Timestamp, height: usize) {
        let queue = queue::view(snapshot);
        if queue.rows.is_empty() {
            return self.sentence(queue.empty);
        }
        let head = ["#", "NAMESPACE", "NAME", "PRIORITY", "PODS", "STATE", "SINCE", "WAITS FOR"];
        let mut rows = vec![Vec::from(head.map(str::to_owned))];
        rows.extend(queue.rows.iter().map(|row| {
            let one = row.pending;
            vec![
                row.position.to_string(),
                one.key.namespace.to_string(),
                format!("{}/{}", one.kind, one.key.name),
                one.priority.to_string(),
                format!("{}/{}", one.bound, one.total),
                row.state.to_owned(),
                one.since.as_ref().map_or_else(|| "-".to_owned(), |since| age(now, since.0)),
                row.waits_for.to_owned(),
            ]
        }));
        // An empty line and the heading are above the rows.
        let left = height.saturating_sub(self.lines.len() + 2);
        self.table(rows, left, "why -A");
    }

    /// Adds to the screen an empty line and a sentence.
    fn sentence(&mut self, text: &str) {
        self.lines.push(String::new());
        self.line(Style::new(), text);
    }

    /// Adds to the screen an empty line and a table. The first row is the heading, and at most `most` lines follow. If rows are left
    /// out, the last of these lines says how many, and which `command` of `kubectl giveway` lists all of them.
    fn table(&mut self, mut rows: Vec<Vec<String>>, most: usize, command: &str) {
        let all = rows.len().saturating_sub(1);
        let kept = if all > most { most.saturating_sub(1) } else { all };
        rows.truncate(kept + 1);
        self.lines.push(String::new());
        for (index, line) in table::table(rows, None).lines().enumerate() {
            self.line(if index == 0 { HEAD } else { Style::new() }, line);
        }
        if kept < all {
            let text = format!("{} of {all} not shown: see `kubectl giveway {command}`.", all - kept);
            self.line(COSTS, &text);
        }
    }

    /// Returns a paragraph that begins with `label`, as lines of at most the width of the screen.
    fn wrapped(&self, label: &str, text: &str) -> Vec<String> {
        let mut lines = String::new();
        table::line(&mut lines, self.width, label, text);
        lines.lines().map(str::to_owned).collect()
    }

    /// Adds to the screen a line in this style, cut to the width of the screen. Colours in the text are removed and control characters
    /// escaped before the cut, so that no sequence is cut.
    fn line(&mut self, style: Style, text: &str) {
        let text = strip_str(&tame::line(text)).to_string();
        self.lines.push(paint(style, cut_to_columns(text, self.width)));
    }
}

/// Returns an upper bound of the number of columns that a terminal needs for a character: 2 for one that is not ASCII, because some are
/// that wide.
fn columns(c: char) -> usize {
    if c.is_ascii() { 1 } else { 2 }
}

/// Cuts a text at `width` columns of the terminal (`None` for no limit), and marks the cut with `…`.
fn cut_to_columns(text: String, width: Option<u16>) -> String {
    let Some(width) = width.map(usize::from).filter(|width| text.chars().map(columns).sum::<usize>() > *width) else {
        return text;
    };
    // The mark of the cut takes one column.
    let mut used = 1;
    let kept = text.chars().take_while(|c| {
        used += columns(*c);
        used <= width
    });
    kept.chain(['…']).collect()
}

/// Returns an amount of a resource as text. Memory is rounded down to Mi, because nodes offer it in Ki.
fn amount(resource: &str, amount: i128) -> String {
    let rest = if resource == "memory" { amount % (1 << 20) } else { 0 };
    quantity::format(resource, amount - rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overview::samples;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::json;

    const SERVER: &str = "https://127.0.0.1:6443";
    const UNLIMITED: ScreenSize = ScreenSize { width: None, height: None };

    fn revision(snapshot: &Snapshot) -> Revision {
        Revision::first(snapshot, Time(samples::READ_AT.parse().unwrap()))
    }

    /// Returns the lines of a revision without colours, 90 s after it was the state of the cluster.
    fn lines_of(snapshot: &Snapshot, shown: &Revision, size: ScreenSize) -> Vec<String> {
        let text = text(snapshot, shown, SERVER, "2026-11-22T12:01:30Z".parse().unwrap(), size);
        strip_str(&text).to_string().lines().map(str::to_owned).collect()
    }

    fn lines(snapshot: &Snapshot, size: ScreenSize) -> Vec<String> {
        lines_of(snapshot, &revision(snapshot), size)
    }

    fn words(line: &str) -> Vec<&str> {
        line.split_whitespace().collect()
    }

    /// Returns what follows the line that starts with this word.
    fn below<'l>(lines: &'l [String], heading: &str) -> &'l [String] {
        let at = lines.iter().position(|line| line.starts_with(heading));
        &lines[at.unwrap_or_else(|| panic!("{heading} is not in {lines:#?}")) + 1..]
    }

    #[test]
    fn the_capacity_the_plans_in_progress_and_the_queue_are_shown() {
        let lines = lines(&samples::snapshot(), UNLIMITED);
        assert_eq!(lines[0], "Cluster https://127.0.0.1:6443, read at 2026-11-22T12:00:00Z");
        let capacity = below(&lines, "RESOURCE");
        assert_eq!(words(&capacity[0]), ["cpu", "8", "6", "0", "4"]);
        assert_eq!(words(&capacity[1])[..3], ["memory", "32Gi", "0"]);
        assert!(lines.iter().any(|line| line.ends_with("COULD BE FREED FOR PRIORITY 1000")), "{lines:#?}");
        let plans = below(&lines, "AGE");
        let plan = ["61m", "podgroup/ml/early", "1000", "1", "pod/batch/v-0", "Evicting", "a-1"];
        assert_eq!(words(&plans[0]), plan);
        assert_eq!(plans[1], "", "the plans that have ended are not shown");
        let queue = below(&lines, "#");
        // `early` has a plan in progress.
        assert_eq!(words(&queue[0])[..7], ["1", "ml", "podgroup/early", "1000", "0/2", "Evicting", "-"]);
        assert_eq!(words(&queue[1])[..7], ["2", "ml", "podgroup/a-late", "1000", "0/2", "Unschedulable", "-"]);
        assert_eq!(words(&queue[2])[..7], ["3", "ml", "podgroup/low", "5", "0/2", "Unschedulable", "-"]);
        assert!(queue[2].ends_with(samples::HOSTILE), "{}", queue[2]);
        assert_eq!(queue.len(), 3);
    }

    #[test]
    fn of_an_empty_cluster_sentences_are_shown() {
        let empty = Snapshot::of(Vec::new(), Vec::new());
        let shown = lines(&empty, ScreenSize { width: Some(80), height: Some(24) });
        assert_eq!(shown[1..], ["", "No node is known.", "", "Nothing is pending."]);
    }

    #[test]
    fn the_last_line_says_how_many_rows_do_not_fit() {
        let row = samples::snapshot().pending.remove(2);
        let pending = (0..100).map(|number| {
            let mut row = row.clone();
            row.key.name = format!("gang-{number:03}").into();
            row
        });
        let full = Snapshot::of(Vec::new(), pending.collect());
        let shown = lines(&full, ScreenSize { width: Some(80), height: Some(24) });
        assert_eq!(shown.len(), 23, "the cursor has a line of its own: {shown:#?}");
        let queue = below(&shown, "#");
        let shown_rows = queue.len() - 1;
        assert!(shown_rows > 10 && queue[0].contains("podgroup/gang-000"), "{queue:#?}");
        assert_eq!(queue[shown_rows], format!("{} of 100 not shown: see `kubectl giveway why -A`.", 100 - shown_rows));
        assert_eq!(below(&lines(&full, UNLIMITED), "#").len(), 100);
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_no_character_controls_it() {
        let mut snapshot = samples::snapshot();
        snapshot.pending[0].message = "\u{1b}[2J\u{1b}[1mbold 等待\nnext".repeat(9);
        snapshot.world.notes = vec!["You may not list Nodes, so none is known.".repeat(3)];
        for width in [1, 20, 40, 80] {
            let size = ScreenSize { width: Some(width), height: Some(40) };
            let text = text(&snapshot, &revision(&snapshot), SERVER, Timestamp::UNIX_EPOCH, size);
            let plain = strip_str(&text).to_string();
            assert!(!plain.contains(|c: char| c.is_control() && c != '\n'), "{plain:?}");
            for line in plain.lines() {
                let used: usize = line.chars().map(|c| if c == '…' { 1 } else { columns(c) }).sum();
                assert!(used <= usize::from(width), "{width}: {line}");
            }
            assert!(width < 20 || plain.lines().any(|line| line.ends_with('…')), "{plain}");
        }
        let wide = lines(&snapshot, UNLIMITED).join("\n");
        assert!(wide.contains("\\u001b[2Jbold 等待\\nnext"), "{wide}");
    }

    #[test]
    fn notes_are_shown_above_the_capacity_and_are_limited() {
        let mut snapshot = samples::snapshot();
        snapshot.world.notes = vec!["You may not list Preemptions, so none is known.".to_owned(); 30];
        let all = lines(&snapshot, UNLIMITED);
        assert_eq!(all[1], "note: You may not list Preemptions, so none is known.");
        assert_eq!(all.iter().filter(|line| line.starts_with("note:")).count(), 30);
        let shown = lines(&snapshot, ScreenSize { width: Some(80), height: Some(24) });
        assert_eq!(shown.iter().filter(|line| line.starts_with("note:")).count(), 4, "{shown:#?}");
        assert_eq!(shown[5], "Further notes are not shown: `kubectl giveway top --once` prints all.");
    }

    #[test]
    fn while_the_cluster_cannot_be_read_the_last_state_stays_with_its_age_and_the_error() {
        let snapshot = samples::snapshot();
        let mut broken = revision(&snapshot);
        broken.problem = Some("GET /api/v1/nodes: connection refused".to_owned());
        let shown = lines_of(&snapshot, &broken, UNLIMITED);
        let expected =
            "The cluster cannot be read; shown is its state of 90s ago: GET /api/v1/nodes: connection refused";
        assert_eq!(shown[1], expected);
        assert_eq!(below(&shown, "#").len(), 3);
    }

    #[test]
    fn amounts_are_those_of_kubernetes_and_memory_is_rounded_down() {
        let shown = json!([amount("cpu", 1500), amount("memory", (3 << 20) + 5), amount("nvidia.com/gpu", 8)]);
        assert_eq!(shown, json!(["1500m", "3Mi", "8"]));
    }
}
