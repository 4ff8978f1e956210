//! Certificates made by the operator: no admission fails while authority and certificate are rotated under load, even if the
//! Secrets are deleted or corrupted.

use crate::MINUTE;
use crate::cli::giveway;
use crate::uninstall::{helm, succeeds};
use giveway_crds::keys;
use giveway_tests::World;
use giveway_tests::cluster::{Shape, scheduling_gates};
use giveway_tests::control_plane::kubeconfig;
use giveway_tests::giveway::install_chart;
use giveway_tests::paths;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        own:
            both_accounts_have_only_their_rights_to_secrets_and_webhook_configurations;
        release:
            the_ca_bundle_can_be_handed_over_to_an_authority_of_the_user_and_back,
            no_admission_fails_while_authority_and_certificate_are_rotated_repeatedly;
    ]
}

const NAMESPACE: &str = "giveway-system";
const AUTHORITY: &str = "giveway-webhook-ca";
const LEAF: &str = "giveway-webhook-tls";
/// How many authorities and certificates the webhook gets while it is under load.
const AUTHORITIES: usize = 10;
const LEAVES: usize = 20;
/// Time between two admissions: 50 a second.
const PACE: Duration = Duration::from_millis(20);
/// Delay after which the API server simulated by the test uses a new bundle. The operator waits for one second.
const LATE: Duration = Duration::from_millis(800);

/// Returns the distinct `caBundle` values of all webhooks.
async fn bundles(client: &Client) -> Vec<Vec<u8>> {
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let (mutating, validating) = (mutating.get("giveway").await.unwrap(), validating.get("giveway").await.unwrap());
    let bytes = |bundle: Option<ByteString>| bundle.map(|bundle| bundle.0).unwrap_or_default();
    let all = mutating.webhooks.into_iter().flatten().map(|webhook| bytes(webhook.client_config.ca_bundle));
    let all = all.chain(validating.webhooks.into_iter().flatten().map(|w| bytes(w.client_config.ca_bundle)));
    let distinct: BTreeSet<Vec<u8>> = all.collect();
    distinct.into_iter().collect()
}

/// Returns the `caBundle` that all webhooks share if it holds exactly one authority, that is, while no rotation is in progress.
async fn trusted(client: &Client) -> Result<Vec<u8>, String> {
    let bundles = bundles(client).await;
    let [bundle] = bundles.as_slice() else { return Err(format!("{} different bundles", bundles.len())) };
    match CertificateDer::pem_slice_iter(bundle).count() {
        1 => Ok(bundle.clone()),
        several => Err(format!("{several} authorities are trusted")),
    }
}

async fn port(client: &Client) -> u16 {
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let url = mutating.get("giveway").await.unwrap().webhooks.unwrap()[0].client_config.url.clone().unwrap();
    url.trim_start_matches("https://127.0.0.1:").split('/').next().unwrap().parse().unwrap()
}

/// Opens a TLS connection to the webhook with these roots and returns the certificate that the webhook presented.
async fn handshake(port: u16, roots: &[u8]) -> Result<Vec<u8>, String> {
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(roots) {
        store.add(certificate.map_err(|error| error.to_string())?).map_err(|error| error.to_string())?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(store).with_no_client_auth();
    let stream = TcpStream::connect(("127.0.0.1", port)).await.map_err(|error| error.to_string())?;
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let stream = connector.connect(name, stream).await.map_err(|error| error.to_string())?;
    Ok(stream.get_ref().1.peer_certificates().unwrap()[0].to_vec())
}

/// Counters and failures of the load.
#[derive(Default)]
struct Load {
    stop: AtomicBool,
    admissions: AtomicU64,
    handshakes: AtomicU64,
    shown: Mutex<BTreeSet<Vec<u8>>>,
    failures: Mutex<Vec<String>>,
}

impl Load {
    fn failed(&self, what: String) {
        self.failures.lock().unwrap().push(what);
    }

    /// Creates members of a gang with `dryRun`, 50 per second. The webhook entry for members fails closed.
    async fn admit(self: Arc<Self>, client: Client) {
        let pods: Api<Pod> = Api::namespaced(client, "default");
        let mut shape = Shape::default();
        shape.labels.insert(keys::LABEL_POD_GROUP.to_owned(), "gang".to_owned());
        let mut tick = tokio::time::interval(PACE);
        let mut tasks = tokio::task::JoinSet::new();
        while !self.stop.load(Ordering::Relaxed) {
            tick.tick().await;
            let (load, pods, pod) = (Arc::clone(&self), pods.clone(), shape.pod("probe"));
            tasks.spawn(async move {
                let dry_run = PostParams { dry_run: true, ..PostParams::default() };
                match pods.create(&dry_run, &pod).await {
                    Ok(pod) if scheduling_gates(&pod) == [keys::GATE] => {}
                    Ok(_) => load.failed("a member was admitted without its gate".to_owned()),
                    Err(error) => load.failed(format!("the admission of a member failed: {error}")),
                }
                load.admissions.fetch_add(1, Ordering::Relaxed);
            });
        }
        tasks.join_all().await;
    }

    /// Connects like an API server that keeps no connection open and uses each bundle [`LATE`] after its change.
    async fn connect(self: Arc<Self>, client: Client) {
        let port = port(&client).await;
        while !self.stop.load(Ordering::Relaxed) {
            let (read, known) = (Instant::now(), bundles(&client).await);
            while read.elapsed() < LATE {
                for roots in &known {
                    match handshake(port, roots).await {
                        Ok(shown) => drop(self.shown.lock().unwrap().insert(shown)),
                        Err(error) => self.failed(format!(
                            "{:?} after it has read the bundle, an API server does not trust the webhook: {error}",
                            read.elapsed()
                        )),
                    }
                    self.handshakes.fetch_add(1, Ordering::Relaxed);
                }
                tokio::time::sleep(PACE).await;
            }
        }
    }
}

/// Waits until the webhook presents another certificate than `before` and exactly one authority (other than `authority`) is
/// trusted.
async fn wait_rotated(client: &Client, port: u16, before: &[u8], authority: Option<&[u8]>) {
    wait_for("the webhook presents a new certificate of the only trusted authority", MINUTE, async || {
        let bundle = trusted(client).await?;
        if authority == Some(bundle.as_slice()) {
            return Err("the authority is the old one".to_owned());
        }
        let shown = handshake(port, &bundle).await?;
        if shown == before { Err("the certificate is the old one".to_owned()) } else { Ok(()) }
    })
    .await;
}

async fn no_admission_fails_while_authority_and_certificate_are_rotated_repeatedly() {
    let mut world = World::builder().operator_certificates().operator_flag("--ca-settle-seconds=1").start().await;
    let client = world.client();
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    let port = port(&client).await;
    let load = Arc::new(Load::default());
    let (impatient, late) = (world.client_of("user").await, world.client_of("late").await);
    let tasks = [tokio::spawn(Arc::clone(&load).admit(impatient)), tokio::spawn(Arc::clone(&load).connect(late))];
    let began = Instant::now();
    let mut authorities = BTreeSet::from([trusted(&client).await.unwrap()]);
    for round in 0..AUTHORITIES {
        // Deletes the certificate, empties it, or writes an invalid key.
        let authority = trusted(&client).await.unwrap();
        let shown = handshake(port, &authority).await.unwrap();
        let empty = ByteString(Vec::new());
        match round % 3 {
            0 => drop(secrets.delete(LEAF, &DeleteParams::default()).await.unwrap()),
            1 => write(&secrets, LEAF, json!({ "tls.crt": empty, "tls.key": empty })).await,
            _ => write(&secrets, LEAF, json!({ "tls.key": ByteString(b"nonsense".to_vec()) })).await,
        }
        wait_rotated(&client, port, &shown, None).await;
        // Deletes the authority, or writes a key that does not match its certificate.
        let shown = handshake(port, &authority).await.unwrap();
        match round % 2 {
            0 => drop(secrets.delete(AUTHORITY, &DeleteParams::default()).await.unwrap()),
            _ => {
                let stranger = ByteString(world.plane().pki().server(&[]).unwrap().key.into_bytes());
                write(&secrets, AUTHORITY, json!({"ca.key": stranger})).await;
            }
        }
        if round == 4 {
            wait_for("the Secret contains the next certificate authority", MINUTE, async || {
                let secret = secrets.get_opt(AUTHORITY).await.unwrap().ok_or("the Secret does not exist")?;
                let next = secret.data.unwrap_or_default().contains_key("next-ca.crt");
                if next { Ok(()) } else { Err("not yet".to_owned()) }
            })
            .await;
            world.operator().kill();
            world.operator().start().await;
        }
        wait_rotated(&client, port, &shown, Some(&authority)).await;
        authorities.insert(trusted(&client).await.unwrap());
    }
    let took = began.elapsed();
    load.stop.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.unwrap();
    }
    let (admissions, handshakes) = (load.admissions.load(Ordering::Relaxed), load.handshakes.load(Ordering::Relaxed));
    let leaves = load.shown.lock().unwrap().len() - 1;
    eprintln!("{admissions} admissions and {handshakes} handshakes in {took:.1?}; {leaves} new certificates");
    let failures = std::mem::take(&mut *load.failures.lock().unwrap());
    assert!(failures.is_empty(), "{} failures, the first: {:#?}", failures.len(), &failures[..failures.len().min(3)]);
    assert_eq!(authorities.len(), AUTHORITIES + 1);
    assert!(leaves >= LEAVES, "{leaves} certificates were shown");
    // Enough admissions that some fall into each phase of each rotation, even on a busy machine.
    assert!(admissions >= 100 * AUTHORITIES as u64, "{admissions} admissions in {took:?}");

    // Events report what the operator found in the Secrets.
    let events =
        world.kubectl(&["get", "events", "-n", NAMESPACE, "-o", "jsonpath={.items[*].message}"]).await.unwrap();
    for text in [
        "ca.crt cannot be used: its certificate and its key cannot be used together",
        "The new certificate authority signs the webhook's certificates from now on.",
        "The webhook's certificate was renewed: there is none.",
    ] {
        assert!(events.contains(text), "no event says {text:?}: {events}");
    }
    let check = giveway(&mut world, &["check"]).await;
    assert!(check.ok().contains("the operator renews it"), "{}", check.out);

    // Neither `kubectl apply` nor server-side apply of the same chart removes the bundle that the operator wrote.
    let bundle = trusted(&client).await.unwrap();
    let manifest = world.plane().manifests().display().to_string();
    for flags in [&["--server-side", "--force-conflicts"][..], &[][..]] {
        let args = [&["apply", "-f", manifest.as_str()], flags].concat();
        world.kubectl(&args).await.unwrap();
        assert_eq!(trusted(&client).await, Ok(bundle.clone()), "{flags:?}");
    }
    // The operator writes the bundle again after a user removed it.
    let patch = r#"[{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]"#;
    world.kubectl(&["patch", "mutatingwebhookconfiguration", "giveway", "--type=json", "-p", patch]).await.unwrap();
    wait_for("the CA bundle is restored", MINUTE, async || {
        if trusted(&client).await? == bundle { Ok(()) } else { Err("another authority".to_owned()) }
    })
    .await;
    world.check_promises().await;
}

async fn the_ca_bundle_can_be_handed_over_to_an_authority_of_the_user_and_back() {
    let mut world = World::bare().await;
    let chart = paths::repository().join("helm");
    let find = |program: &str| paths::giveway_program(program).unwrap();
    let mut giveway = install_chart(world.plane(), &chart, &[], find).await.unwrap();
    let client = world.client();
    let operators = wait_for("the operator has written the bundle", MINUTE, async || trusted(&client).await).await;
    let own = world.plane().pki().ca().as_bytes().to_vec();
    let bundle = format!("webhook.caBundle={}", kubeconfig::base64(&own));
    let path = chart.display().to_string();
    let upgrade = ["upgrade", "giveway", &path, "--reset-then-reuse-values"];
    let own_values = ["--set", "webhook.certificate.secretName=mine", "--set", &bundle];
    let mine = [&upgrade[..], &own_values].concat();
    // The operator is the field manager until the user takes the field over, as described in docs/certificates.md.
    let refused = helm(&mut world, &mine).wait_with_output().await.unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("conflicts with \"giveway-operator\""), "{said}");
    // A running operator would write its own bundle again immediately, so it is stopped first.
    giveway.operator.terminate().await;
    succeeds(helm(&mut world, &[&mine[..], &["--force-conflicts"]].concat())).await;
    assert_eq!(trusted(&client).await, Ok(own));
    let args = ["get", "deployment", "giveway-operator", "-n", NAMESPACE, "-o", "jsonpath={..args}"];
    assert!(world.kubectl(&args).await.unwrap().contains("--certificates=external"));
    // Once the user owns the field, helm needs no flag.
    succeeds(helm(&mut world, &mine)).await;

    // Back to certificates of the operator: the bundle is empty until the operator has written it.
    let back = ["--set", "webhook.certificate.secretName=", "--set", "webhook.caBundle="];
    succeeds(helm(&mut world, &[&upgrade[..], &back].concat())).await;
    assert_eq!(bundles(&client).await, [Vec::<u8>::new()]);
    giveway.operator.spawn().unwrap();
    wait_for("the operator has written the bundle again", MINUTE, async || match trusted(&client).await? {
        now if now == operators => Ok(()),
        _ => Err("another authority".to_owned()),
    })
    .await;
    let port = port(&client).await;
    handshake(port, &operators).await.unwrap();
}

/// Writes keys of a Secret.
async fn write(secrets: &Api<Secret>, name: &str, data: serde_json::Value) {
    secrets.patch(name, &PatchParams::default(), &Patch::Merge(json!({ "data": data }))).await.unwrap();
}

/// The webhook cannot read the authority's key, the operator can create only these two Secrets and can change only `caBundle` of the webhook
/// configurations.
async fn both_accounts_have_only_their_rights_to_secrets_and_webhook_configurations() {
    let world = World::builder().operator_certificates().start().await;
    let account = |name: &str| format!("--as=system:serviceaccount:{NAMESPACE}:{name}");
    for (name, secret, verb, answer) in [
        ("giveway-webhook", LEAF, "get", "yes"),
        ("giveway-webhook", AUTHORITY, "get", "no"),
        ("giveway-webhook", LEAF, "update", "no"),
        ("giveway-operator", AUTHORITY, "update", "yes"),
        ("giveway-operator", "other", "get", "no"),
        ("giveway-operator", AUTHORITY, "delete", "no"),
    ] {
        let args =
            ["auth", "can-i", verb, &format!("secret/{secret}"), "-n", NAMESPACE, &account(name)].map(str::to_owned);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let said =
            world.kubectl(&args).await.unwrap_or_else(|said| if said.trim().is_empty() { "no".into() } else { said });
        assert_eq!(said.trim(), answer, "{name} may {verb} {secret}");
    }
    let args = ["create", "secret", "generic", "other", "-n", NAMESPACE, &account("giveway-operator")];
    let said = world.kubectl(&args).await.unwrap_err();
    assert!(
        said.contains("the operator creates the Secrets giveway-webhook-ca and giveway-webhook-tls only"),
        "{said}"
    );
    let bundles = "the operator changes nothing but caBundle of webhook configurations";
    let labels = "metadata.labels: Giveway's operator may neither change nor remove a label, nor add one that starts with scheduling.giveway.dev/";
    let url = json!({"webhooks": [{"name": "pods.giveway.dev", "clientConfig": {"url": "https://192.0.2.1"}}]});
    for (kind, patch, words) in [
        ("mutating", url, bundles),
        ("mutating", json!({"webhooks": [{"name": "pods.giveway.dev", "matchConditions": null}]}), bundles),
        ("mutating", json!({"metadata": {"labels": {"app.kubernetes.io/name": "other"}}}), labels),
        ("mutating", json!({"metadata": {"labels": {"app.kubernetes.io/name": null}}}), labels),
        ("validating", json!({"webhooks": [{"name": "guard.giveway.dev", "failurePolicy": "Fail"}]}), bundles),
        ("validating", json!({"webhooks": [{"name": "guard.giveway.dev", "$patch": "delete"}]}), bundles),
    ] {
        let kind = format!("{kind}webhookconfiguration");
        let account = account("giveway-operator");
        let said = world.kubectl(&["patch", &kind, "giveway", "-p", &patch.to_string(), &account]).await.unwrap_err();
        assert!(said.contains(words), "{patch}: {said}");
    }
    world.check_promises().await;
}
