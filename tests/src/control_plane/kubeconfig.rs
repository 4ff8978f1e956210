//! Kubeconfig files: how every process and every client finds the API server and says who it is.

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

/// How a client proves who it is.
pub enum Credentials<'a> {
    /// By a client certificate.
    Certificate(&'a Identity),
    /// By a bearer token.
    Token(&'a str),
}

/// A kubeconfig with one cluster, one user and one context.
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

/// Writes a kubeconfig that only its owner can read.
///
/// # Errors
/// The file cannot be written.
pub fn write(path: &Path, kubeconfig: &Kubeconfig) -> Result<()> {
    let text = serde_yaml_ng::to_string(kubeconfig).context("writing a kubeconfig")?;
    super::write_private(path, text.as_bytes())
}

/// Reads a kubeconfig.
///
/// # Errors
/// There is no such file, or it is none.
pub fn read(path: &Path) -> Result<Kubeconfig> {
    Kubeconfig::read_from(path).with_context(|| format!("reading {}", path.display()))
}

/// A client for this kubeconfig that uses no proxy, whatever the environment says.
///
/// # Errors
/// The kubeconfig is not usable.
pub async fn client(kubeconfig: Kubeconfig) -> Result<Client> {
    reading(config(kubeconfig).await?)
}

/// As [`client`], for requests that are refused at once and not tried again for minutes: a blocked eviction looks to the
/// library like a server that is busy.
///
/// # Errors
/// The kubeconfig is not usable.
pub async fn impatient_client(kubeconfig: Kubeconfig) -> Result<Client> {
    let mut config = config(kubeconfig).await?;
    config.default_retry = false;
    reading(config)
}

/// The tests, too, read what anybody wrote.
fn reading(config: Config) -> Result<Client> {
    Ok(ClientBuilder::try_from(config)?.with_layer(&LeaveOut).build())
}

async fn config(kubeconfig: Kubeconfig) -> Result<Config> {
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.proxy_url = None;
    Ok(config)
}

/// Standard base64 with padding, as the API writes bytes.
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
