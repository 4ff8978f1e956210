//! Parameters of a request. Only names of Kubernetes are expected, which need no encoding: nothing is decoded.

use super::page_error::PageError;
use crate::names;
use giveway_planner::{ObjectKey, Preemptor};
use http::StatusCode;
use std::collections::BTreeMap;

/// The parameters of a query string.
#[derive(Debug, Default)]
pub(super) struct Query<'q>(BTreeMap<&'q str, &'q str>);

impl<'q> Query<'q> {
    /// Splits the query string of a URL into parameters, which are not decoded. Parts without `=` are ignored.
    pub(super) fn of(query: Option<&'q str>) -> Self {
        Self(query.into_iter().flat_map(|text| text.split('&')).filter_map(|part| part.split_once('=')).collect())
    }

    /// Returns the value of a parameter; `None` if it is missing or empty.
    pub(super) fn get(&self, name: &str) -> Option<&'q str> {
        self.0.get(name).copied().filter(|value| !value.is_empty())
    }

    /// Returns the parameter `name`, which must be a valid name of an object.
    pub(super) fn name(&self) -> Result<String, PageError> {
        let name = names::subdomain(self.get("name").unwrap_or_default());
        name.map_err(|problem| Self::invalid("name", &problem))
    }

    /// Returns the parameter `namespace`, or `None` if it is missing. It must be a valid name of a namespace.
    pub(super) fn namespace(&self) -> Result<Option<String>, PageError> {
        let namespace = self.get("namespace").map(names::label).transpose();
        namespace.map_err(|problem| Self::invalid("namespace", &problem))
    }

    /// Returns namespace and name of the object in the parameters `namespace` and `name`, which are both required.
    pub(super) fn key(&self) -> Result<ObjectKey, PageError> {
        match self.namespace()? {
            Some(namespace) => Ok(ObjectKey::new(namespace, self.name()?)),
            None => Err(Self::invalid("namespace", "is required")),
        }
    }

    /// Returns the group or pod in the parameters `kind`, `namespace` and `name`; `None` without `kind`.
    pub(super) fn preemptor(&self) -> Result<Option<Preemptor>, PageError> {
        match self.get("kind") {
            None => Ok(None),
            Some("podgroup") => Ok(Some(Preemptor::Group(self.key()?))),
            Some("pod") => Ok(Some(Preemptor::Pod(self.key()?))),
            Some(_) => Err(Self::invalid("kind", "must be podgroup or pod")),
        }
    }

    /// Returns the parameter `priority`, or `None` if it is missing. It must be a whole number.
    pub(super) fn priority(&self) -> Result<Option<i32>, PageError> {
        let priority = self.get("priority").map(str::parse).transpose();
        priority.map_err(|_| Self::invalid("priority", "must be a whole number"))
    }

    /// Returns the parameter `after`, the number of the revision that the page shows, or `None` if it is missing.
    pub(super) fn after(&self) -> Result<Option<u64>, PageError> {
        let after = self.get("after").map(str::parse).transpose();
        after.map_err(|_| Self::invalid("after", "must be the number of a revision"))
    }

    /// Returns the error 400 that a parameter is invalid. `problem` is the end of a sentence about it, such as `is required`.
    pub(super) fn invalid(parameter: &str, problem: &str) -> PageError {
        PageError::new(StatusCode::BAD_REQUEST, format!("The parameter {parameter} is invalid: {problem}."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_names_and_numbers_and_nothing_is_decoded() {
        let query = Query::of(Some("kind=podgroup&namespace=ml&name=train&priority=-5&empty=&odd"));
        assert_eq!(query.preemptor().unwrap(), Some(Preemptor::Group(ObjectKey::new("ml", "train"))));
        assert_eq!((query.priority().unwrap(), query.get("empty"), query.get("odd")), (Some(-5), None, None));
        let none = Query::of(None);
        assert_eq!(
            (none.preemptor().unwrap(), none.priority().unwrap(), none.namespace().unwrap()),
            (None, None, None)
        );
        for wrong in ["kind=pod&namespace=ml&name=%61", "kind=node&name=a", "kind=pod&name=a", "kind=pod&namespace=ml"]
        {
            assert_eq!(Query::of(Some(wrong)).preemptor().unwrap_err().status, StatusCode::BAD_REQUEST, "{wrong}");
        }
        assert_eq!(Query::of(Some("priority=1e9")).priority().unwrap_err().status, StatusCode::BAD_REQUEST);
        assert_eq!(Query::of(Some("after=7")).after().unwrap(), Some(7));
        assert_eq!(Query::of(Some("after=-7")).after().unwrap_err().status, StatusCode::BAD_REQUEST);
    }
}
