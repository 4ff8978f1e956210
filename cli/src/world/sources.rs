//! Where the objects come from: a file, or the lists of a live cluster.

use super::World;
use crate::connect::{Api, ClusterConnection, block_on};
use crate::error::CliError;
use crate::live::Fallback;
#[cfg(test)]
use crate::live::Objects;
use crate::{files, live};
use giveway_crds::critical;
use std::path::{Path, PathBuf};

impl World {
    /// Creates a world without objects. `source` names the origin of its objects in messages, a file or `cluster`; `is_live` is true
    /// for a live cluster.
    fn empty(source: String, is_live: bool) -> Self {
        let mut world = Self { source, is_live, ..Self::default() };
        // Pods of classes that are not managed have their policy only in their spec.
        world.cluster.trust_pod_policy = true;
        world.set_critical_namespaces(critical::NAMESPACE);
        world
    }

    /// Creates a world without objects for those of a live cluster.
    pub(crate) fn of_live_cluster() -> Self {
        Self::empty("cluster".to_owned(), true)
    }

    /// Reads the objects, of a live cluster or of a file.
    ///
    /// # Errors
    /// An object of a file cannot be read. Such objects of a live cluster are skipped, as by the operator, and noted.
    #[cfg(test)]
    pub(crate) fn new(objects: Objects, live: bool) -> Result<Self, CliError> {
        let mut world = Self::empty(objects.source, live);
        objects.items.iter().try_for_each(|item| world.add(item))?;
        world.update_derived(objects.notes);
        Ok(world)
    }

    /// Reads the snapshot in the file `snapshot`, or the live cluster if that is `None`. Returns the objects, and the namespace for
    /// manifests that name none.
    ///
    /// # Errors
    /// The snapshot or the cluster cannot be read, or snapshot and manifests are both standard input.
    pub(crate) fn of_flags(
        snapshot: Option<&Path>,
        manifests: &[PathBuf],
        connection: &ClusterConnection,
    ) -> Result<(Self, String), CliError> {
        let is_standard_input = |path: &Path| path.as_os_str() == "-";
        match snapshot {
            Some(file) if is_standard_input(file) && manifests.iter().any(|manifest| is_standard_input(manifest)) => {
                Err(CliError::StandardInputTwice)
            }
            Some(file) => Ok((Self::of_file(file)?, connection.namespace())),
            None => block_on(async {
                let api = connection.api().await?;
                Ok((Self::of_cluster(&api, |_| true).await?, api.namespace.clone()))
            }),
        }
    }

    /// Reads the objects of a live cluster of the kinds for whose name `wanted` returns true.
    ///
    /// # Errors
    /// A list fails.
    pub(crate) async fn of_cluster(api: &Api, wanted: impl Fn(&str) -> bool) -> Result<Self, CliError> {
        let mut world = Self::of_live_cluster();
        let gaps = live::each(api, Fallback::None, wanted, |item| world.add(&item)).await?;
        world.update_derived(gaps.notes);
        Ok(world)
    }

    /// Reads a live cluster as far as the user may: of a kind that the user may not list in the whole cluster, the objects of this
    /// namespace. Notes say what is unknown.
    ///
    /// # Errors
    /// A list fails for another reason than a missing right.
    pub(crate) async fn of_what_may_be_seen(api: &Api, namespace: &str) -> Result<Self, CliError> {
        let mut world = Self::of_live_cluster();
        let gaps = live::each(api, Fallback::Namespace(namespace), |_| true, |item| world.add(&item)).await?;
        world.blind = gaps.blind;
        world.update_derived(gaps.notes);
        Ok(world)
    }

    /// Reads the snapshot in a file.
    ///
    /// # Errors
    /// The file is not a snapshot, or an object of it cannot be read.
    pub(crate) fn of_file(path: &Path) -> Result<Self, CliError> {
        let mut world = Self::empty(files::title(path), false);
        files::each(path, |item| world.add(&item))?;
        world.update_derived(Vec::new());
        Ok(world)
    }
}
