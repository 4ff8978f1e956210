//! The chart's roles for users, and which of them a missing permission requires.

/// A role that an administrator can bind to a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChartRole<'a> {
    /// Reads the objects that plans and answers are made from.
    Planner,
    /// Adopts and releases priority classes; with Giveway's namespace, which contains the records.
    ClassAdmin(&'a str),
    /// Switches the mode; with Giveway's namespace, which contains the ConfigMap.
    Switch(&'a str),
}

impl ChartRole<'_> {
    /// Returns the API server's message `said`; if it says that an RBAC permission is missing, with the command that binds this role of
    /// the chart.
    pub(crate) fn explain(self, said: &str) -> String {
        let Some(user) = user_without_right(said) else { return said.to_owned() };
        let binding =
            |kind: &str, role: &str| format!("kubectl create {kind} NAME --{role}={} --user={user}", self.name());
        match self {
            Self::Planner => format!(
                "{said}: the chart's ClusterRole {} allows it: {}",
                self.name(),
                binding("clusterrolebinding", "clusterrole")
            ),
            Self::Switch(namespace) => format!(
                "{said}: the chart's Role {} allows it: {} --namespace={namespace}",
                self.name(),
                binding("rolebinding", "role")
            ),
            Self::ClassAdmin(namespace) => format!(
                "{said}: the chart's ClusterRole and Role {} allow it: {} and {} --namespace={namespace}",
                self.name(),
                binding("clusterrolebinding", "clusterrole"),
                binding("rolebinding", "role")
            ),
        }
    }

    /// Returns the name of the ClusterRole or Role in the chart.
    fn name(self) -> &'static str {
        match self {
            Self::Planner => "giveway-planner",
            Self::ClassAdmin(_) => "giveway-class-admin",
            Self::Switch(_) => "giveway-switch",
        }
    }
}

/// Returns the user named in an RBAC rejection: `pods is forbidden: User "a" cannot list resource "pods" in API group ""`; `None` for
/// any other message. Rejections by admission are "forbidden" as well, but no role permits them.
pub(crate) fn user_without_right(said: &str) -> Option<&str> {
    let (_, rest) = said.split_once(" is forbidden: User \"")?;
    let (user, rest) = rest.split_once('"')?;
    rest.starts_with(" cannot ").then_some(user)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str =
        "pods is forbidden: User \"ann\" cannot list resource \"pods\" in API group \"\" at the cluster scope";

    #[test]
    fn a_missing_right_names_the_role_that_gives_it() {
        assert_eq!(
            ChartRole::Planner.explain(SAID),
            format!(
                "{SAID}: the chart's ClusterRole giveway-planner allows it: kubectl create clusterrolebinding NAME --clusterrole=giveway-planner --user=ann"
            )
        );
        assert_eq!(
            ChartRole::Switch("gw").explain(SAID),
            format!(
                "{SAID}: the chart's Role giveway-switch allows it: kubectl create rolebinding NAME --role=giveway-switch --user=ann --namespace=gw"
            )
        );
        assert_eq!(
            ChartRole::ClassAdmin("gw").explain(SAID),
            format!(
                "{SAID}: the chart's ClusterRole and Role giveway-class-admin allow it: kubectl create clusterrolebinding NAME --clusterrole=giveway-class-admin --user=ann and kubectl create rolebinding NAME --role=giveway-class-admin --user=ann --namespace=gw"
            )
        );
    }

    #[test]
    fn errors_that_no_role_fixes_are_not_changed() {
        for said in [
            "pods \"p\" is forbidden: ValidatingAdmissionPolicy 'giveway-pods' with binding 'giveway-pods' denied request: no",
            "priorityclasses.scheduling.k8s.io \"a\" is forbidden: PriorityClass b is already marked as default",
            "the server is too busy",
        ] {
            assert_eq!(ChartRole::Planner.explain(said), said);
        }
    }
}
