//! Which requests are answered: those of the one browser that exchanged the token of the printed URL for a cookie.
//!
//! Any process of the machine can connect to 127.0.0.1, and any page that the browser shows can send requests there. So a request needs
//! the name of this server as its host (a name in the DNS of another party can point here), the cookie, and, to do more than read, the
//! origin of this page. Cookies know no ports: the browser sends this one to other servers at 127.0.0.1 as well.

use http::header::COOKIE;
use http::request::Parts;
use http::{Method, StatusCode};

/// The secrets of one run of `ui`: a token in the printed URL, and the cookie that one browser gets for it.
pub(super) struct Session {
    port: u16,
    /// The token; `None` when it has been exchanged.
    token: Option<String>,
    cookie: String,
}

/// Whether a request is answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SessionVerdict {
    /// It is.
    Granted,
    /// It has the token: the answer sets this cookie.
    Exchanged(String),
    /// It is rejected with this status and sentence.
    Denied(StatusCode, &'static str),
}

impl Session {
    /// Creates the session of the server at this port. `token` and `cookie` are secrets of hexadecimal digits.
    pub(super) fn new(port: u16, token: String, cookie: String) -> Self {
        Self { port, token: Some(token), cookie }
    }

    /// Returns the URL that opens the page, with the session's token; `None` after a browser has exchanged the token for a cookie.
    pub(super) fn url(&self) -> Option<String> {
        Some(format!("http://127.0.0.1:{}/?token={}", self.port, self.token.as_ref()?))
    }

    /// Decides by its headers and URL whether a request is answered: it needs this server's name, and the session's cookie or its
    /// token. The token can be exchanged for the cookie once.
    pub(super) fn admit(&mut self, head: &Parts) -> SessionVerdict {
        if !self.is_for_this_server(head) {
            return SessionVerdict::Denied(
                StatusCode::MISDIRECTED_REQUEST,
                "The Host header must be 127.0.0.1 or localhost, with the port of this server.",
            );
        }
        if let Some(offered) = offered_token(head)
            && self.token.as_deref().is_some_and(|token| equal_secrets(token, offered))
        {
            self.token = None;
            let (name, value) = (self.cookie_name(), &self.cookie);
            return SessionVerdict::Exchanged(format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict"));
        }
        if !self.has_cookie(head) {
            let why = "This browser has no session. Open the URL that `kubectl giveway ui` printed. It can be opened once: if it was, \
                       run the command again.";
            return SessionVerdict::Denied(StatusCode::FORBIDDEN, why);
        }
        let named = |name: &str| self.is_named(name);
        let own = match head.method {
            Method::GET => {
                single_header(head, "sec-fetch-site").is_none_or(|site| site == "same-origin" || site == "none")
            }
            Method::POST => {
                single_header(head, "origin").and_then(|origin| origin.strip_prefix("http://")).is_some_and(named)
            }
            _ => return SessionVerdict::Denied(StatusCode::METHOD_NOT_ALLOWED, "Only GET and POST are answered."),
        };
        if own {
            SessionVerdict::Granted
        } else {
            SessionVerdict::Denied(StatusCode::FORBIDDEN, "Only requests from this page are answered.")
        }
    }

    /// Returns true if `name` is host and port of this server.
    fn is_named(&self, name: &str) -> bool {
        ["127.0.0.1", "localhost"].iter().any(|host| name == format!("{host}:{}", self.port))
    }

    /// Returns true if the header `Host` of the request, and its URL if that has one, names host and port of this server.
    fn is_for_this_server(&self, head: &Parts) -> bool {
        let named = |name: &str| self.is_named(name);
        single_header(head, "host").is_some_and(named)
            && head.uri.authority().is_none_or(|authority| named(authority.as_str()))
    }

    /// Returns the name of the cookie, which contains the port: two runs use two cookies.
    fn cookie_name(&self) -> String {
        format!("giveway-ui-{}", self.port)
    }

    /// Returns true if the request has the session's cookie.
    fn has_cookie(&self, head: &Parts) -> bool {
        let headers = head.headers.get_all(COOKIE).iter().filter_map(|header| header.to_str().ok());
        let mut cookies =
            headers.flat_map(|header| header.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
        cookies.any(|(name, value)| name == self.cookie_name() && equal_secrets(value, &self.cookie))
    }
}

/// Returns the token in the URL of a request for the start page; `None` for other requests.
fn offered_token(head: &Parts) -> Option<&str> {
    let is_page = head.method == Method::GET && head.uri.path() == "/";
    head.uri.query().filter(|_| is_page)?.strip_prefix("token=")
}

/// Returns the value of a header that the request has exactly once; otherwise `None`.
fn single_header<'h>(head: &'h Parts, name: &str) -> Option<&'h str> {
    let mut values = head.headers.get_all(name).iter();
    let value = values.next()?;
    if values.next().is_some() { None } else { value.to_str().ok() }
}

/// Returns true if two secrets are equal, after a time that does not depend on where they differ.
fn equal_secrets(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    const COOKIE_VALUE: &str = "giveway-ui-4711=c00k1e";

    fn session() -> Session {
        Session::new(4711, "70cen".to_owned(), "c00k1e".to_owned())
    }

    fn head(method: &str, uri: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    /// Returns the status with which a request is rejected, or `None`.
    fn denied(head: &Parts) -> Option<u16> {
        match session().admit(head) {
            SessionVerdict::Denied(status, _) => Some(status.as_u16()),
            _ => None,
        }
    }

    #[test]
    fn the_token_is_exchanged_once_for_a_cookie_that_scripts_and_other_sites_do_not_get() {
        let mut session = session();
        assert_eq!(session.url().as_deref(), Some("http://127.0.0.1:4711/?token=70cen"));
        let host = [("host", "127.0.0.1:4711")];
        for wrong in ["/?token=", "/?token=70ce", "/?token=70cen0", "/?x=70cen", "/api/queue?token=70cen", "/"] {
            assert!(matches!(session.admit(&head("GET", wrong, &host)), SessionVerdict::Denied(..)), "{wrong}");
        }
        assert!(matches!(session.admit(&head("POST", "/?token=70cen", &host)), SessionVerdict::Denied(..)));
        let url = head("GET", "/?token=70cen", &[("host", "127.0.0.1:4711"), ("sec-fetch-site", "cross-site")]);
        let cookie = format!("{COOKIE_VALUE}; Path=/; HttpOnly; SameSite=Strict");
        assert_eq!(session.admit(&url), SessionVerdict::Exchanged(cookie), "also from a terminal in a browser");
        assert_eq!(session.url(), None);
        assert!(matches!(session.admit(&url), SessionVerdict::Denied(StatusCode::FORBIDDEN, _)));
        let again = head("GET", "/?token=70cen", &[host[0], ("cookie", COOKIE_VALUE)]);
        assert_eq!(session.admit(&again), SessionVerdict::Granted, "the same browser may load the URL again");
    }

    #[test]
    fn a_request_needs_the_cookie() {
        for (cookie, expected) in [
            (COOKIE_VALUE, None),
            ("a=b; giveway-ui-4711=c00k1e; c=d", None),
            ("giveway-ui-4711=c00k1", Some(403)),
            ("giveway-ui-4712=c00k1e", Some(403)),
            ("c00k1e", Some(403)),
            ("", Some(403)),
        ] {
            let head = head("GET", "/api/queue", &[("host", "localhost:4711"), ("cookie", cookie)]);
            assert_eq!(denied(&head), expected, "{cookie}");
        }
    }

    #[test]
    fn a_name_of_another_server_is_rejected_with_the_cookie_too() {
        for host in ["evil.example", "127.0.0.1", "127.0.0.1:4712", "localhost.evil.example:4711", "[::1]:4711", ""] {
            let head = head("GET", "/api/queue", &[("host", host), ("cookie", COOKIE_VALUE)]);
            assert_eq!(denied(&head), Some(421), "{host}");
        }
        let none = head("GET", "/api/queue", &[("cookie", COOKIE_VALUE)]);
        let two = [("host", "127.0.0.1:4711"), ("host", "evil.example"), ("cookie", COOKIE_VALUE)];
        let in_uri = head("GET", "http://evil.example/api/queue", &[two[0], two[2]]);
        for head in [none, head("GET", "/api/queue", &two), in_uri] {
            assert_eq!(denied(&head), Some(421), "{head:?}");
        }
    }

    #[test]
    fn a_page_of_another_origin_can_neither_post_nor_get() {
        let with = |method: &str, more: &[(&str, &str)]| {
            let own = [("host", "127.0.0.1:4711"), ("cookie", COOKIE_VALUE)];
            denied(&head(method, "/api/plan", &[&own[..], more].concat()))
        };
        assert_eq!(with("POST", &[("origin", "http://127.0.0.1:4711")]), None);
        assert_eq!(with("POST", &[("origin", "http://localhost:4711")]), None);
        for origin in ["http://127.0.0.1:4712", "https://127.0.0.1:4711", "null", "http://evil.example"] {
            assert_eq!(with("POST", &[("origin", origin)]), Some(403), "{origin}");
        }
        assert_eq!(with("POST", &[]), Some(403));
        assert_eq!(with("GET", &[("sec-fetch-site", "same-origin")]), None);
        assert_eq!(with("GET", &[("sec-fetch-site", "none")]), None);
        assert_eq!(with("GET", &[("sec-fetch-site", "same-site")]), Some(403), "another port of this machine");
        assert_eq!(with("GET", &[("sec-fetch-site", "cross-site")]), Some(403));
        assert_eq!(with("DELETE", &[("origin", "http://127.0.0.1:4711")]), Some(405));
    }
}
