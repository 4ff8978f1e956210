//! `/metrics`: OpenMetrics for clients that request it, otherwise Prometheus' older text format, in which the name of a
//! counter includes `_total` and there is no end marker.

use std::fmt::Write as _;
use warp::filters::BoxedFilter;
use warp::reply::Response;
use warp::{Filter, Reply};

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Returns the route `GET /metrics`. It sends the metrics that `encode` returns as OpenMetrics text, converted to Prometheus' classic
/// format if the client does not ask for OpenMetrics.
pub fn scrape(encode: impl Fn() -> String + Clone + Send + Sync + 'static) -> BoxedFilter<(Response,)> {
    warp::path!("metrics")
        .and(warp::get())
        .and(warp::header::optional::<String>("accept"))
        .map(move |accept: Option<String>| {
            let (text, format) = negotiated(accept.as_deref(), encode());
            warp::reply::with_header(text, "content-type", format).into_response()
        })
        .boxed()
}

/// Returns the metrics and their content type: in OpenMetrics if `accept`, the header `Accept`, asks for that, and otherwise in the classic
/// text format.
fn negotiated(accept: Option<&str>, open_metrics: String) -> (String, &'static str) {
    match accept {
        Some(accept) if accept.contains("application/openmetrics-text") => (open_metrics, OPEN_METRICS),
        _ => (classic(&open_metrics), CLASSIC),
    }
}

/// Converts metrics in OpenMetrics to the classic text format of Prometheus, in which a counter is declared with the suffix `_total`.
pub fn classic(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    // The encoder writes HELP before TYPE, and only TYPE tells whether the metric is a counter.
    let mut help: Option<(&str, &str)> = None;
    for line in open_metrics.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("HELP"), Some(name), sentence) => help = Some((name, sentence.unwrap_or_default())),
            (Some("#"), Some("TYPE"), Some(name), Some(kind)) => {
                let total = if kind == "counter" { "_total" } else { "" };
                // Writing to a string does not fail.
                if let Some((_, sentence)) = help.take().filter(|(of, _)| *of == name) {
                    let _ = writeln!(text, "# HELP {name}{total} {sentence}");
                }
                let _ = writeln!(text, "# TYPE {name}{total} {kind}");
            }
            (Some("#"), ..) => {}
            _ => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_the_older_format_a_counter_has_its_full_name_in_every_line() {
        let open = "# HELP calls Calls.\n# TYPE calls counter\ncalls_total{verb=\"get\"} 3\n\
                    # HELP open Open ones.\n# TYPE open gauge\n# UNIT open bytes\nopen 1\n# EOF\n";
        let older = "# HELP calls_total Calls.\n# TYPE calls_total counter\ncalls_total{verb=\"get\"} 3\n\
                     # HELP open Open ones.\n# TYPE open gauge\nopen 1\n";
        assert_eq!(classic(open), older);
    }

    #[test]
    fn the_format_is_the_one_that_is_asked_for() {
        let open = || "# TYPE calls counter\ncalls_total 3\n# EOF\n".to_owned();
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(negotiated(Some(prometheus), open()), (open(), OPEN_METRICS));
        let older = "# TYPE calls_total counter\ncalls_total 3\n".to_owned();
        assert_eq!(negotiated(Some("*/*"), open()), (older.clone(), CLASSIC));
        assert_eq!(negotiated(None, open()), (older, CLASSIC));
    }
}
