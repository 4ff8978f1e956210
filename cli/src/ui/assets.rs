//! The files of the page, compiled into the program. They load nothing from elsewhere, and write every text of the cluster with
//! `textContent`.

/// Content type of scripts.
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Path, content type and text of each file.
const FILES: [(&str, &str, &str); 9] = [
    ("/", "text/html; charset=utf-8", include_str!("page/index.html")),
    ("/style.css", "text/css; charset=utf-8", include_str!("page/style.css")),
    ("/main.js", SCRIPT, include_str!("page/main.js")),
    ("/dom.js", SCRIPT, include_str!("page/dom.js")),
    ("/map.js", SCRIPT, include_str!("page/map.js")),
    ("/queue.js", SCRIPT, include_str!("page/queue.js")),
    ("/plan.js", SCRIPT, include_str!("page/plan.js")),
    ("/history.js", SCRIPT, include_str!("page/history.js")),
    ("/cluster.js", SCRIPT, include_str!("page/cluster.js")),
];

/// Returns content type and text of the page's file at this path of a URL; `None` if there is no such file.
pub(super) fn find(path: &str) -> Option<(&'static str, &'static str)> {
    FILES.iter().find(|(at, ..)| *at == path).map(|(_, content_type, text)| (*content_type, *text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_parses_texts_as_markup_or_code_or_names_another_server() {
        // The name of the namespace of SVG elements is not an address.
        let svg = "http://www.w3.org/2000/svg";
        for (path, _, text) in FILES {
            let text = text.replace(svg, "");
            for word in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "DOMParser",
                "createContextualFragment",
                "srcdoc",
                "eval(",
                "Function(",
                "setTimeout(\"",
                "javascript:",
                "http:",
                "https:",
                "//cdn",
                "@import",
                "url(",
                "import(",
                "localStorage",
                "sessionStorage",
                " style=",
                " onclick=",
                " onload=",
            ] {
                assert!(!text.contains(word), "{path} has {word}");
            }
        }
    }

    #[test]
    fn every_file_that_the_page_names_exists_and_every_file_is_named() {
        let all: String = FILES.iter().map(|(_, _, text)| *text).collect();
        for (path, _, text) in FILES {
            let named = |prefix: &str| all.contains(&format!("{prefix}{}\"", path.trim_start_matches('/')));
            assert!(path == "/" || named("\"/") || named("\"./"), "no file names {path}");
            for import in text.lines().filter_map(|line| line.strip_prefix("import ")) {
                let (_, from) = import.split_once("from \"./").unwrap_or_else(|| panic!("{path}: {import}"));
                let file = from.trim_end_matches(';').trim_end_matches('"');
                assert!(find(&format!("/{file}")).is_some(), "{path} imports {file}");
            }
        }
    }
}
