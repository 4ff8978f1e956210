//! Which of the versions that an API server has is read: the most stable one, and of two the newer.

use super::{GROUP, KIND, PLURAL};
use kube::core::{ApiResource, GroupVersionKind};

/// Returns those of the `served` API versions in which native PodGroups may be requested, the most stable and newest first. The others were
/// never served for PodGroups, or Giveway cannot read them.
pub fn by_preference<S: AsRef<str>>(served: &[S]) -> Vec<&str> {
    let mut known: Vec<(Rank, &str)> =
        served.iter().filter_map(|version| Some((rank(version.as_ref())?, version.as_ref()))).collect();
    known.sort_by(|(a, x), (b, y)| b.cmp(a).then_with(|| x.cmp(y)));
    known.into_iter().map(|(_, version)| version).collect()
}

/// Returns group, version, kind and plural name of native PodGroups in this version, for requests to the API server.
pub fn resource(version: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, version, KIND), PLURAL)
}

/// Returns group, version, kind and plural name of native PodGroups in the most stable and newest version that the API server serves and
/// Giveway can read; `None` if it serves none.
///
/// # Errors
/// The API server does not answer which versions it serves.
#[cfg(feature = "client")]
pub async fn served(client: &kube::Client) -> Result<Option<ApiResource>, kube::Error> {
    let groups = client.list_api_groups().await?.groups;
    let versions = groups.into_iter().filter(|group| group.name == GROUP).flat_map(|group| group.versions);
    let versions: Vec<String> = versions.map(|version| version.version).collect();
    for version in by_preference(&versions) {
        let list = client.list_api_group_resources(&format!("{GROUP}/{version}")).await?;
        if list.resources.iter().any(|served| served.name == PLURAL) {
            return Ok(Some(resource(version)));
        }
    }
    Ok(None)
}

/// How stable, and how new: larger is better.
type Rank = (u8, u32, u32);

/// Returns the sort key of a version such as `v1`, `v1beta1` or `v1alpha3`: a more stable and newer one is higher. `None` for any other
/// text.
fn rank(version: &str) -> Option<Rank> {
    let rest = version.strip_prefix('v')?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (major, level) = rest.split_at(end);
    let major = major.parse().ok()?;
    if level.is_empty() {
        return Some((2, major, 0));
    }
    let (stability, minor) = match (level.strip_prefix("beta"), level.strip_prefix("alpha")) {
        (Some(minor), _) => (1, minor),
        (None, Some(minor)) => (0, minor),
        (None, None) => return None,
    };
    Some((stability, major, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::by_preference;

    #[test]
    fn the_most_stable_version_comes_first_and_then_the_newest() {
        let served = ["v1alpha2", "v1", "v1beta1", "v1alpha3", "v1beta2"];
        assert_eq!(by_preference(&served), ["v1", "v1beta2", "v1beta1", "v1alpha3", "v1alpha2"]);
    }

    #[test]
    fn an_invalid_version_is_not_requested() {
        assert_eq!(by_preference(&["vx", "1", "v1gamma1", "v1beta", ""]), Vec::<&str>::new());
    }
}
