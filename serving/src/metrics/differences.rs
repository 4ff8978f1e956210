//! Compares the metrics of a process with the list of its metrics, for tests.

use super::about::{About, MetricKind};
use std::collections::BTreeSet;

/// Compares metrics in Prometheus' classic text format with a list of descriptions, and returns the differences, each as a
/// sentence: metrics with another type, twice in the text, not listed or not in the text; samples with other labels; a
/// counter whose name does not end in `_total`.
pub fn differences<'a>(text: &str, catalogue: impl IntoIterator<Item = &'a About>) -> Vec<String> {
    let all: Vec<&About> = catalogue.into_iter().collect();
    let (mut found, mut wrong) = (BTreeSet::new(), Vec::new());
    for (name, kind) in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')) {
        match all.iter().find(|about| about.name == name) {
            None => wrong.push(format!("{name} is in no list")),
            Some(about) if about.kind.as_str() != kind => wrong.push(format!("{name} is shown as a {kind}")),
            Some(_) => {}
        }
        if !found.insert(name) {
            wrong.push(format!("{name} is shown twice"));
        }
    }
    wrong.extend(
        all.iter().filter(|about| !found.contains(about.name)).map(|about| format!("{} is not shown", about.name)),
    );
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap_or_default();
        let Some(about) = all.iter().find(|about| about.has_sample(name)) else {
            wrong.push(format!("{line} is a sample of no metric"));
            continue;
        };
        let labels = line.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map_or("", |(labels, _)| labels);
        let labels = labels.split(',').filter_map(|label| Some(label.split_once('=')?.0));
        let labels: BTreeSet<&str> = labels.filter(|label| *label != "le").collect();
        if labels != about.labels.iter().map(|label| label.name).collect() {
            wrong.push(format!("{line} has other labels than are listed"));
        }
        if (about.kind == MetricKind::Counter) != name.ends_with("_total") {
            wrong.push(format!("{name} is named as another kind of metric"));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::label;

    const LIST: [About; 2] =
        [About::counter("a_total", "Of a", &[label("kind", "names")]), About::gauge("b", "Of b", &[])];

    #[test]
    fn each_difference_is_named() {
        let right = "# TYPE a_total counter\na_total{kind=\"x\"} 1\n# TYPE b gauge\nb 2\n";
        assert_eq!(differences(right, &LIST), [""; 0]);
        let wrong = "# TYPE a_total gauge\na_total{reason=\"x\"} 1\n# TYPE a_total gauge\n# TYPE c gauge\nc 2\n";
        assert_eq!(
            differences(wrong, &LIST),
            [
                "a_total is shown as a gauge",
                "a_total is shown as a gauge",
                "a_total is shown twice",
                "c is in no list",
                "b is not shown",
                "a_total{reason=\"x\"} 1 has other labels than are listed",
                "c 2 is a sample of no metric",
            ]
        );
    }
}
