//! The views of the last revision, so that several browsers and tabs cost as much as one.

use hyper::body::Bytes;
use std::collections::BTreeMap;

/// Maximum number of views. A page has four, and more with their parameters.
const MOST: usize = 16;

/// The computed views of one revision of the cluster, by path and query of their request.
#[derive(Debug, Default)]
pub(super) struct Views {
    revision: u64,
    views: BTreeMap<String, Bytes>,
}

impl Views {
    /// Returns the stored view for `address`, the path and query of a request; `None` if there is none of this revision.
    pub(super) fn get(&self, revision: u64, address: &str) -> Option<Bytes> {
        self.views.get(address).filter(|_| self.revision == revision).cloned()
    }

    /// Stores the view for `address`, the path and query of a request. All views of another revision are removed.
    pub(super) fn keep(&mut self, revision: u64, address: String, view: Bytes) {
        if self.revision != revision || self.views.len() >= MOST {
            self.views.clear();
        }
        self.revision = revision;
        self.views.insert(address, view);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_are_those_of_one_revision_and_not_too_many() {
        let mut views = Views::default();
        views.keep(1, "/api/queue".to_owned(), Bytes::from_static(b"old"));
        assert_eq!(views.get(1, "/api/queue").as_deref(), Some(&b"old"[..]));
        assert_eq!((views.get(2, "/api/queue"), views.get(1, "/api/history")), (None, None));
        views.keep(2, "/api/history".to_owned(), Bytes::new());
        assert_eq!(views.get(1, "/api/queue"), None);
        for number in 0..100 {
            views.keep(2, format!("/api/cluster?priority={number}"), Bytes::new());
            assert!(views.views.len() <= MOST);
        }
        assert!(views.get(2, "/api/cluster?priority=99").is_some());
    }
}
