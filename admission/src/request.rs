//! An admission request, as the rules read it: borrowed from its text, so that an object of any size needs no memory in
//! addition. Objects remain text, of which rules parse what they need.

use crate::object::Text;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The requested operation.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// An object is created.
    Create,
    /// An object is changed.
    Update,
    /// An object is deleted.
    Delete,
    /// A connection to an object, such as `exec`.
    Connect,
}

impl Operation {
    /// Returns the name of the operation in an AdmissionReview.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// A group and a resource in it, such as `pods` of the core group.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct GroupResource<'a> {
    /// API group; empty for the core group.
    #[serde(borrow, default)]
    pub group: Text<'a>,
    /// Plural, lower-case name.
    #[serde(borrow, default)]
    pub resource: Text<'a>,
}

/// The user that sent the request.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct UserInfo<'a> {
    /// Name of the user, such as `system:serviceaccount:NAMESPACE:NAME`.
    #[serde(borrow, default)]
    pub username: Option<Text<'a>>,
    /// Names of the groups that the user belongs to, such as `system:nodes`.
    #[serde(borrow, default)]
    pub groups: Option<Vec<Text<'a>>>,
}

/// An admission request with the fields that the rules read; borrowed from the body.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request<'a> {
    /// Identity of the request; the response has the same.
    #[serde(borrow)]
    pub uid: Text<'a>,
    /// Resource of the object.
    #[serde(borrow)]
    pub resource: GroupResource<'a>,
    /// The subresource, such as `status`; empty for the object itself.
    #[serde(borrow, default)]
    pub sub_resource: Option<Text<'a>>,
    /// Name of the object; empty if the API server has not generated it yet.
    #[serde(borrow, default)]
    pub name: Option<Text<'a>>,
    /// Namespace of the object; empty for cluster-scoped kinds.
    #[serde(borrow, default)]
    pub namespace: Option<Text<'a>>,
    /// The requested operation.
    pub operation: Operation,
    /// The user that sent the request.
    #[serde(borrow, default)]
    pub user_info: UserInfo<'a>,
    /// True if nothing is stored, and no side effects are permitted.
    #[serde(default)]
    pub dry_run: bool,
    /// The object as it is to be stored; null on deletion.
    #[serde(borrow, default = "null")]
    pub object: &'a RawValue,
    /// The object as it is stored; null on creation.
    #[serde(borrow, default = "null")]
    pub old_object: &'a RawValue,
}

/// Returns the JSON value null, for requests without an object.
fn null<'a>() -> &'a RawValue {
    RawValue::NULL
}

impl<'a> Request<'a> {
    /// Returns a request to create this object, which is not a dry run and has neither a user nor a UID. So it gets none of the
    /// exceptions for Giveway's own components.
    pub fn create(group: &'a str, resource: &'a str, namespace: &'a str, object: &'a RawValue) -> Self {
        Self {
            uid: Text::default(),
            resource: GroupResource { group: group.into(), resource: resource.into() },
            sub_resource: None,
            name: None,
            namespace: Some(namespace.into()),
            operation: Operation::Create,
            user_info: UserInfo::default(),
            dry_run: false,
            object,
            old_object: null(),
        }
    }
}

impl Request<'_> {
    /// Returns the namespace of the object; the empty string for a cluster-scoped one.
    pub fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default()
    }

    /// Returns the subresource, such as `status`; the empty string if the request is for the object itself.
    pub fn sub_resource(&self) -> &str {
        self.sub_resource.as_deref().unwrap_or_default()
    }

    /// Returns the name of the user that sent the request.
    pub fn user(&self) -> &str {
        self.user_info.username.as_deref().unwrap_or_default()
    }

    /// Returns true if the user that sent the request belongs to this user group.
    pub fn is_in_group(&self, group: &str) -> bool {
        self.user_info.groups.iter().flatten().any(|each| &**each == group)
    }
}
