//! Access to the cluster: kubectl's flags, the kubeconfig files that they select, and single API calls.

use crate::error::CliError;
use crate::names;
use clap::Args;
use giveway_cluster::client;
use giveway_cluster::list::ListPage;
use giveway_cluster::objects::KindFields;
use giveway_cluster::watch::permitted::PermittedReader;
use giveway_crds::answers::managed_fields::LeaveOut;
use http::header::CONTENT_TYPE;
use http::{Method, Request, Uri};
use kube::api::{ListParams, WatchParams};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::core::Status;
use kube::{Client, Config};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// The flags that kubectl has for every command.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct ClusterConnection {
    /// Path of the kubeconfig file; without it $KUBECONFIG, then ~/.kube/config, then the pod's own account.
    #[arg(long, global = true, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Name of the kubeconfig context.
    #[arg(long, global = true, value_name = "NAME")]
    context: Option<String>,
    /// Name of the kubeconfig cluster.
    #[arg(long, global = true, value_name = "NAME")]
    cluster: Option<String>,
    /// Name of the kubeconfig user.
    #[arg(long, global = true, value_name = "NAME")]
    user: Option<String>,
    /// Namespace; without it the context's.
    #[arg(long, short, global = true, value_name = "NAME", value_parser = names::label)]
    pub(crate) namespace: Option<String>,
    /// How long to wait for one answer of the API server: a number of seconds, or one with a unit, such as 1s, 2m
    /// or 3h. 0 waits for ever.
    #[arg(long, global = true, value_name = "DURATION", default_value = "0", value_parser = duration)]
    request_timeout: Duration,
    /// URL of the API server, such as https://10.0.0.1:6443.
    #[arg(long, global = true, value_name = "URL", value_parser = server)]
    server: Option<Uri>,
    /// Bearer token, instead of the credentials of the kubeconfig user.
    #[arg(long, global = true, value_name = "TOKEN")]
    token: Option<String>,
    /// User name to impersonate.
    #[arg(long = "as", global = true, value_name = "USER")]
    impersonate: Option<String>,
    /// Group to impersonate, together with --as. May be repeated.
    #[arg(long = "as-group", global = true, value_name = "GROUP")]
    impersonate_groups: Vec<String>,
    /// Namespace in which Giveway is installed; without it that of the Service in its webhook configuration, or giveway-system.
    #[arg(long, global = true, hide = true, value_name = "NAME", value_parser = names::label)]
    giveway_namespace: Option<String>,
}

/// Namespace in which Giveway is installed, unless a flag or its webhook configuration says otherwise.
const GIVEWAY_NAMESPACE: &str = "giveway-system";
/// Path of the webhook configuration whose Service is in Giveway's namespace.
const CONFIGURATION: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/giveway";

/// Maximum time without an object of a list in progress, unless `--request-timeout` sets another one.
const PATIENCE: Duration = Duration::from_secs(60);

/// API client of a cluster.
#[derive(Clone)]
pub(crate) struct Api {
    client: Client,
    timeout: Duration,
    /// The namespace of the flag, or of the context.
    pub(crate) namespace: String,
    /// URL of the API server.
    pub(crate) server: String,
    /// The value of `--giveway-namespace`.
    giveway_namespace: Option<String>,
}

impl ClusterConnection {
    /// Returns the namespace of a command that reads no cluster: that of the flag, or `default`.
    pub(crate) fn namespace(&self) -> String {
        self.namespace.clone().unwrap_or_else(|| "default".to_owned())
    }

    /// Creates the API client that the flags and the kubeconfig select; no request is sent yet. Must be called inside a tokio runtime.
    pub(crate) async fn api(&self) -> Result<Api, CliError> {
        // Installing the provider twice fails and has no effect.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let mut config = self.config().await?;
        self.override_credentials(&mut config);
        check_proxy(config.proxy_url.as_ref())?;
        let namespace = self.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let client = client::builder(config).map_err(|error| CliError::Kubeconfig(message_with_causes(&error)))?;
        let client = client.with_layer(&LeaveOut).build();
        let giveway_namespace = self.giveway_namespace.clone();
        Ok(Api { client, timeout: self.request_timeout, namespace, server, giveway_namespace })
    }

    /// Overrides URL, token and impersonation in `config`, which is read from the kubeconfig, by the flags that are set.
    fn override_credentials(&self, config: &mut Config) {
        if let Some(url) = &self.server {
            config.cluster_url = url.clone();
        }
        if let Some(token) = &self.token {
            config.auth_info = AuthInfo { token: Some(token.clone().into()), ..AuthInfo::default() };
        }
        if let Some(user) = &self.impersonate {
            config.auth_info.impersonate = Some(user.clone());
        }
        if !self.impersonate_groups.is_empty() {
            config.auth_info.impersonate_groups = Some(self.impersonate_groups.clone());
        }
    }

    /// Returns how to reach the API server: from the kubeconfig, with the context, cluster and user of the flags; without a kubeconfig
    /// from `--server`, or from the service account of the pod in which the command runs.
    async fn config(&self) -> Result<Config, CliError> {
        let failed = |error: &dyn std::error::Error| CliError::Kubeconfig(message_with_causes(error));
        let chosen = self.context.is_some() || self.cluster.is_some() || self.user.is_some();
        let file = match &self.kubeconfig {
            Some(path) => Kubeconfig::read_from(path).map_err(|error| failed(&error))?,
            None => match Kubeconfig::read() {
                Ok(file) => file,
                Err(error) if chosen => return Err(failed(&error)),
                Err(error) => {
                    let outside = self.server.clone().map(Config::new);
                    return outside.map_or_else(|| Config::incluster().map_err(|_| failed(&error)), Ok);
                }
            },
        };
        let options =
            KubeConfigOptions { context: self.context.clone(), cluster: self.cluster.clone(), user: self.user.clone() };
        Config::from_custom_kubeconfig(file, &options).await.map_err(|error| failed(&error))
    }
}

/// Result of a GET: 404 and 403 are answers, not errors.
pub(crate) enum GetResult<T> {
    /// The object, or list.
    Found(T),
    /// 404.
    Missing,
    /// 403, with the API server's message.
    Forbidden(String),
}

/// Why a request to the API server failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    /// The API server rejected the call.
    #[error("{}", .0.message)]
    Refused(Box<Status>),
    /// There is no response, or an invalid one.
    #[error("{0}")]
    Failed(String),
}

impl RequestError {
    /// Returns the HTTP status with which the API server rejected the request; `None` if it gave no answer.
    pub(crate) fn code(&self) -> Option<u16> {
        match self {
            Self::Refused(status) => Some(status.code),
            Self::Failed(_) => None,
        }
    }

    /// Returns true if a retry may succeed: there was no response, or the server or a webhook is overloaded or fails.
    pub(crate) fn may_pass(&self) -> bool {
        self.code().is_none_or(|code| code == 429 || code >= 500)
    }
}

impl Api {
    /// Returns the namespace in which Giveway is installed: that of the flag, otherwise that of the Service in Giveway's webhook
    /// configuration, otherwise `giveway-system`. Only administrators can write the webhook configuration; a search by labels would
    /// find what a tenant created.
    pub(crate) async fn giveway_namespace(&self) -> String {
        if let Some(name) = &self.giveway_namespace {
            return name.clone();
        }
        // Without the right to read it, or after an uninstall, the default counts.
        let configuration = self.get::<Value>(CONFIGURATION).await;
        let Ok(GetResult::Found(configuration)) = configuration else { return GIVEWAY_NAMESPACE.to_owned() };
        service_namespace(&configuration).unwrap_or(GIVEWAY_NAMESPACE).to_owned()
    }

    /// Sends one GET to this path of the API server. A missing object, an unknown kind and a missing permission are answers, not
    /// errors.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<GetResult<T>, CliError> {
        get_result(self.call(Method::GET, path, Vec::new()).await, path)
    }

    /// Lists one page of the objects of a kind, in one namespace or in the whole cluster (`None`). `take` is called with each object as
    /// it arrives, reduced to the fields that the command line reads. Returns the `continue` token of the next page, which is empty
    /// after the last one.
    pub(crate) async fn page(
        &self,
        kind: &KindFields,
        namespace: Option<&str>,
        params: &ListParams,
        take: &mut impl FnMut(Value) -> Result<(), CliError>,
    ) -> Result<GetResult<String>, CliError> {
        let (path, mut taken) = (kind.path_in(namespace), Ok(()));
        let call = async {
            let mut page = ListPage::request(&self.client, &path, params).await?;
            while taken.is_ok()
                && let Some(object) = page.next_value(kind).await?
            {
                taken = take(object);
            }
            Ok::<_, kube::Error>(page.next_page().unwrap_or_default().to_owned())
        };
        let next = self.with_timeout(call).await;
        taken?;
        get_result(next, &path)
    }

    /// Returns a reader that lists and watches the objects of a kind in the whole cluster, or, if the user may not read it there, in
    /// `namespace` if that is set.
    pub(crate) fn follow(
        &self,
        kind: &'static KindFields,
        namespace: Option<String>,
        params: WatchParams,
    ) -> PermittedReader {
        PermittedReader::new(self.client.clone(), kind, namespace, params)
    }

    /// Returns how long to wait for the next object of a list in progress: the time of `--request-timeout`, or else 60 s.
    pub(crate) fn object_timeout(&self) -> Duration {
        if self.timeout.is_zero() { PATIENCE } else { self.timeout }
    }

    /// Sends one request with an object as its body in JSON, and decodes the object in the answer.
    pub(crate) async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, RequestError> {
        let body = serde_json::to_vec(body).map_err(|error| RequestError::Failed(error.to_string()))?;
        self.call(method, path, body).await
    }

    /// Deletes the object at this path, if it meets these preconditions (`uid`, `resourceVersion`).
    pub(crate) async fn delete(&self, path: &str, preconditions: &Value) -> Result<(), RequestError> {
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions});
        self.send::<Value>(Method::DELETE, path, &options).await.map(|_| ())
    }

    /// Changes the object at this path by a JSON merge patch, and returns it as it is stored then.
    pub(crate) async fn merge<T: DeserializeOwned>(
        &self,
        path: &str,
        patch: &impl Serialize,
    ) -> Result<T, RequestError> {
        let patch = serde_json::to_vec(patch).map_err(|error| RequestError::Failed(error.to_string()))?;
        self.request(Method::PATCH, path, "application/merge-patch+json", patch).await
    }

    /// Changes or creates the object at this path by server-side apply, and returns it as it is stored then.
    pub(crate) async fn apply<T: DeserializeOwned>(
        &self,
        path: &str,
        object: &impl Serialize,
    ) -> Result<T, RequestError> {
        let object = serde_json::to_vec(object).map_err(|error| RequestError::Failed(error.to_string()))?;
        self.request(Method::PATCH, path, "application/apply-patch+yaml", object).await
    }

    /// Sends one request whose body is already encoded as JSON (empty for none), and decodes the object in the answer.
    pub(crate) async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<T, RequestError> {
        self.request(method, path, "application/json", body).await
    }

    /// Sends one request whose body has the content type `content`, and decodes the object in the answer. It fails after the time of
    /// `--request-timeout`.
    async fn request<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        content: &str,
        body: Vec<u8>,
    ) -> Result<T, RequestError> {
        let request = Request::builder().method(method).uri(path).header(CONTENT_TYPE, content).body(body);
        let request = request.map_err(|error| RequestError::Failed(error.to_string()))?;
        self.with_timeout(self.client.request::<T>(request)).await
    }

    /// Waits for the answer to a request, at most for the time of `--request-timeout`.
    async fn with_timeout<T>(&self, call: impl Future<Output = Result<T, kube::Error>>) -> Result<T, RequestError> {
        let answer = if self.timeout.is_zero() {
            call.await
        } else {
            let waited = format!("the API server did not answer within {:?}", self.timeout);
            tokio::time::timeout(self.timeout, call).await.map_err(|_| RequestError::Failed(waited))?
        };
        answer.map_err(RequestError::from)
    }
}

impl From<kube::Error> for RequestError {
    /// Separates a rejection by the API server from other failures of a request.
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Refused(status),
            other => Self::Failed(message_with_causes(&other)),
        }
    }
}

/// Returns an error if the URL of a SOCKS proxy has a user and password: they would not be sent, and the proxy would answer that it
/// accepts no method.
fn check_proxy(url: Option<&Uri>) -> Result<(), CliError> {
    let socks = url.filter(|url| url.scheme_str() == Some("socks5")).and_then(Uri::authority);
    match socks.and_then(|authority| authority.as_str().rsplit_once('@')) {
        None => Ok(()),
        Some((_, host)) => Err(CliError::Kubeconfig(format!(
            "proxy-url of the cluster, or HTTPS_PROXY: Invalid value: \"socks5://…@{host}\": user and password are not supported for \
             a SOCKS proxy: use one that asks for none, or an http or https proxy"
        ))),
    }
}

/// Returns the namespace of the Service in a webhook configuration; `None` if its webhooks call a URL.
fn service_namespace(configuration: &Value) -> Option<&str> {
    let mut webhooks = configuration["webhooks"].as_array()?.iter();
    let found = webhooks.find_map(|webhook| webhook["clientConfig"]["service"]["namespace"].as_str());
    found.filter(|name| giveway_crds::names::is_label(name))
}

/// Returns the result of a GET at `path`, for which the answers 404 and 403 are no errors.
fn get_result<T>(answer: Result<T, RequestError>, path: &str) -> Result<GetResult<T>, CliError> {
    match answer {
        Ok(value) => Ok(GetResult::Found(value)),
        Err(RequestError::Refused(status)) if status.code == 404 => Ok(GetResult::Missing),
        Err(RequestError::Refused(status)) if status.code == 403 => Ok(GetResult::Forbidden(status.message)),
        Err(error) => Err(CliError::Cluster { what: format!("GET {path}"), problem: error.to_string() }),
    }
}

/// Returns an error's message with the messages of all its causes.
fn message_with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// Returns the path that lists one page of at most `limit` objects at `path`; `next` is the `continue` token of the previous page,
/// empty for the first page.
pub(crate) fn page_of(path: &str, limit: usize, next: &str) -> String {
    let and = if path.contains('?') { '&' } else { '?' };
    let first = format!("{path}{and}limit={limit}");
    if next.is_empty() { first } else { format!("{first}&continue={next}") }
}

/// Runs a future to its end on this thread.
pub(crate) fn block_on<T>(future: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let failed = |error: std::io::Error| CliError::Cluster { what: "runtime".to_owned(), problem: error.to_string() };
    runtime.map_err(failed)?.block_on(future)
}

/// Parses the URL of an API server, `https` or `http`. The error says what is valid.
fn server(text: &str) -> Result<Uri, String> {
    let url: Option<Uri> = text.parse().ok();
    let has_host = |url: &Uri| matches!(url.scheme_str(), Some("https" | "http")) && url.host().is_some();
    url.filter(has_host).ok_or_else(|| "must be a URL, such as https://10.0.0.1:6443".to_owned())
}

/// Parses a duration as kubectl does: `0`, `30`, `500ms`, `1s`, `2m`, `3h`. The error says what is valid.
fn duration(text: &str) -> Result<Duration, String> {
    let problem = || "must be a number of seconds, or a number with a unit: 500ms, 1s, 2m or 3h".to_owned();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: u64 = number.parse().map_err(|_| problem())?;
    let seconds = |factor: u64| number.checked_mul(factor).map(Duration::from_secs).ok_or_else(problem);
    match unit {
        "" | "s" => seconds(1),
        "ms" => Ok(Duration::from_millis(number)),
        "m" => seconds(60),
        "h" => seconds(3600),
        _ => Err(problem()),
    }
}

#[cfg(test)]
mod tests {
    use super::{ClusterConnection, check_proxy, duration, server, service_namespace};
    use kube::Config;
    use serde_json::json;
    use std::time::Duration;

    #[test]
    fn flags_take_precedence_over_the_kubeconfig() {
        let mut config = Config::new("https://in-file:6443".parse().unwrap());
        config.auth_info.client_certificate = Some("of-the-file".to_owned());
        config.auth_info.token_file = Some("of-the-file".to_owned());
        let flags = ClusterConnection {
            server: Some(server("https://10.0.0.1:6443").unwrap()),
            token: Some("secret".to_owned()),
            impersonate: Some("ann".to_owned()),
            impersonate_groups: vec!["ml".to_owned(), "dev".to_owned()],
            ..ClusterConnection::default()
        };
        flags.override_credentials(&mut config);
        assert_eq!(config.cluster_url.host(), Some("10.0.0.1"));
        let auth = &config.auth_info;
        assert!(auth.token.is_some() && auth.client_certificate.is_none() && auth.token_file.is_none());
        assert_eq!(auth.impersonate.as_deref(), Some("ann"));
        assert_eq!(auth.impersonate_groups.as_deref(), Some(&["ml".to_owned(), "dev".to_owned()][..]));
        for wrong in ["", "10.0.0.1:6443", "ftp://a", "/x"] {
            assert_eq!(server(wrong).unwrap_err(), "must be a URL, such as https://10.0.0.1:6443", "{wrong}");
        }
    }

    #[test]
    fn credentials_of_a_socks_proxy_are_rejected_and_not_printed() {
        let proxy = |url: &str| check_proxy(Some(&url.parse().unwrap()));
        let said = proxy("socks5://ann:secret@10.0.0.1:1080").unwrap_err().to_string();
        let words = "kubeconfig: proxy-url of the cluster, or HTTPS_PROXY: Invalid value: \"socks5://…@10.0.0.1:1080\": user and \
                     password are not supported for a SOCKS proxy: use one that asks for none, or an http or https proxy";
        assert_eq!(said, words);
        for fine in ["socks5://10.0.0.1:1080", "http://ann:secret@10.0.0.1:3128"] {
            assert!(proxy(fine).is_ok(), "{fine}");
        }
    }

    #[test]
    fn the_namespace_of_giveway_is_that_of_the_service_in_the_webhook_configuration() {
        let webhook = |config: serde_json::Value| json!({"webhooks": [{"clientConfig": config}]});
        let service = webhook(json!({"service": {"name": "giveway-webhook", "namespace": "gw"}}));
        assert_eq!(service_namespace(&service), Some("gw"));
        for none in [
            webhook(json!({"url": "https://127.0.0.1:9443"})),
            json!({}),
            webhook(json!({"service": {"namespace": "a/b"}})),
        ] {
            assert_eq!(service_namespace(&none), None, "{none}");
        }
    }

    #[test]
    fn a_request_timeout_is_read_as_kubectl_reads_it() {
        let read = [("0", 0), ("30", 30_000), ("500ms", 500), ("1s", 1000), ("2m", 120_000), ("1h", 3_600_000)];
        for (text, millis) in read {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "s", "1d", "-1", "1.5s", "99999999999999999999"] {
            assert!(duration(text).unwrap_err().starts_with("must be a number of seconds"), "{text}");
        }
    }
}
