//! Kubeconfig files and clients.

use super::pki::Identity;
use anyhow::{Context as _, Result};
use giveway_crds::answers::managed_fields::LeaveOut;
use k8s_openapi::ByteString;
use kube::client::ClientBuilder;
use kube::config::{
    AuthInfo, Cluster, Context as KubeContext, KubeConfigOptions, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext,
};
use kube::{Client, Config};
use std::path::Path;

/// Credentials of a client.
pub enum Credentials<'a> {
    /// A client certificate.
    Certificate(&'a Identity),
    /// A bearer token.
    Token(&'a str),
}

/// Returns a kubeconfig with one cluster, one user and one context.
pub fn build(server: &str, ca_pem: &str, user: &str, credentials: &Credentials<'_>) -> Kubeconfig {
    let mut auth = AuthInfo::default();
    match credentials {
        Credentials::Certificate(identity) => {
            auth.client_certificate_data = Some(base64(identity.certificate.as_bytes()));
            auth.client_key_data = Some(base64(identity.key.as_bytes()).into());
        }
        Credentials::Token(token) => auth.token = Some((*token).to_owned().into()),
    }
    let cluster = Cluster {
        server: Some(server.to_owned()),
        certificate_authority_data: Some(base64(ca_pem.as_bytes())),
        ..Cluster::default()
    };
    let context = KubeContext { cluster: "giveway".to_owned(), user: Some(user.to_owned()), ..KubeContext::default() };
    Kubeconfig {
        kind: Some("Config".to_owned()),
        api_version: Some("v1".to_owned()),
        clusters: vec![NamedCluster { name: "giveway".to_owned(), cluster: Some(cluster), ..NamedCluster::default() }],
        auth_infos: vec![NamedAuthInfo { name: user.to_owned(), auth_info: Some(auth), ..NamedAuthInfo::default() }],
        contexts: vec![NamedContext { name: "giveway".to_owned(), context: Some(context), ..NamedContext::default() }],
        current_context: Some("giveway".to_owned()),
        ..Kubeconfig::default()
    }
}

/// Writes a kubeconfig with file mode 0600.
///
/// # Errors
/// If the file cannot be written.
pub fn write(path: &Path, kubeconfig: &Kubeconfig) -> Result<()> {
    let text = serde_yaml_ng::to_string(kubeconfig).context("writing a kubeconfig")?;
    super::write_private(path, text.as_bytes())
}

/// Reads a kubeconfig.
///
/// # Errors
/// If the file does not exist or is not a kubeconfig.
pub fn read(path: &Path) -> Result<Kubeconfig> {
    Kubeconfig::read_from(path).with_context(|| format!("reading {}", path.display()))
}

/// Returns a client for this kubeconfig that ignores proxy settings of the environment.
///
/// # Errors
/// If the kubeconfig is invalid.
pub async fn client(kubeconfig: Kubeconfig) -> Result<Client> {
    reading(config(kubeconfig).await?)
}

/// Like [`client`], but does not retry requests: the library would retry a refused eviction (429) for minutes.
///
/// # Errors
/// If the kubeconfig is invalid.
pub async fn impatient_client(kubeconfig: Kubeconfig) -> Result<Client> {
    let mut config = config(kubeconfig).await?;
    config.default_retry = false;
    reading(config)
}

/// Returns a client that can parse objects with invalid managed fields.
fn reading(config: Config) -> Result<Client> {
    Ok(ClientBuilder::try_from(config)?.with_layer(&LeaveOut).build())
}

async fn config(kubeconfig: Kubeconfig) -> Result<Config> {
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.proxy_url = None;
    Ok(config)
}

/// Returns standard base64 with padding, as in the Kubernetes API.
pub fn base64(bytes: &[u8]) -> String {
    match serde_json::to_value(ByteString(bytes.to_vec())) {
        Ok(serde_json::Value::String(text)) => text,
        other => unreachable!("bytes are written as a string, not as {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn base64_pads_every_length() {
        assert_eq!(base64(b""), "");
        assert_eq!(base64(b"f"), "Zg==");
        assert_eq!(base64(b"fo"), "Zm8=");
        assert_eq!(base64(b"foo"), "Zm9v");
    }
}
