//! The only error of this crate: an object that the model rejects.

use super::quantity::QuantityError;

/// An object with a value that cannot be parsed. The model does not contain the object until it is corrected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {object}: {field}: Invalid value: \"{value}\": {problem}")]
pub struct ModelError {
    /// Kind of the object, as in `Pod`.
    pub kind: &'static str,
    /// `NAMESPACE/NAME`, or the name of an object without a namespace.
    pub object: String,
    /// Path of the field.
    pub field: String,
    /// The value of the field.
    pub value: String,
    /// What is wrong with it.
    pub problem: String,
}

impl ModelError {
    /// Creates the error of an object without a name, or without the namespace that its kind needs; `field` is the path of the missing one.
    pub(crate) fn nameless(kind: &'static str, object: String, field: &str) -> Self {
        let problem = "Required value: every stored object has one".to_owned();
        Self { kind, object, field: field.to_owned(), value: String::new(), problem }
    }

    /// Creates the error of an object whose field `field` has a quantity that cannot be read.
    pub(crate) fn quantity(kind: &'static str, object: &str, field: String, error: QuantityError) -> Self {
        let problem = error.problem.to_owned();
        Self { kind, object: object.to_owned(), field, value: error.text, problem }
    }
}
