//! Network policies, the certificate of the webhook, and the authorities of its clients.

use crate::helm::{document, has_flags, object, pod_template, rejects, rendered};
use serde_json::json;

#[test]
fn network_policies_admit_the_peers_in_the_values() {
    let open = rendered(&[]);
    let webhook = document(&open, "NetworkPolicy", "giveway-webhook");
    assert!(webhook.contains("port: https") && webhook.contains("port: metrics"), "{webhook}");
    assert!(!webhook.contains("from:"), "{webhook}");
    let operator = document(&open, "NetworkPolicy", "giveway-operator");
    assert!(operator.contains("port: metrics") && !operator.contains("port: https"), "{operator}");

    let values =
        ["networkPolicy.apiServers={10.0.0.2/32,fd00::2/128}", "networkPolicy.metricsFrom[0].ipBlock.cidr=10.0.0.0/16"];
    let named = rendered(&values);
    let webhook = document(&named, "NetworkPolicy", "giveway-webhook");
    let (admission, metrics) = webhook.split_once("# Metrics and probes.").unwrap();
    assert!(admission.contains("cidr: 10.0.0.2/32") && admission.contains("cidr: fd00::2/128"), "{webhook}");
    assert!(metrics.contains("cidr: 10.0.0.0/16") && !metrics.contains("10.0.0.2"), "{webhook}");
    assert!(!rendered(&["networkPolicy.enabled=false"]).contains("kind: NetworkPolicy"));
}

#[test]
fn the_own_authority_outlives_its_certificates_and_is_omitted_with_a_given_issuer() {
    let own = rendered(&["webhook.certManager.enabled=true"]);
    let authority = document(&own, "Certificate", "giveway-webhook-authority");
    for line in
        ["isCA: true", "duration: 87600h", "secretName: giveway-webhook-authority", "name: giveway-webhook-self-signed"]
    {
        assert!(authority.contains(line), "{line} is not in:\n{authority}");
    }
    assert!(document(&own, "Issuer", "giveway-webhook-self-signed").contains("selfSigned: {}"));
    assert!(document(&own, "Issuer", "giveway-webhook").contains("secretName: giveway-webhook-authority"));
    assert!(document(&own, "Certificate", "giveway-webhook").contains("name: giveway-webhook\n"));
    let theirs = rendered(&["webhook.certManager.enabled=true", "webhook.certManager.issuerRef.name=corporate"]);
    assert!(!theirs.contains("giveway-webhook-authority") && !theirs.contains("kind: Issuer\nmetadata"), "{theirs}");
}

#[test]
fn the_authorities_of_clients_are_mounted_with_and_without_a_certificate_that_is_mounted() {
    let flag = "--client-ca-file=/client-authorities/ca.crt";
    assert!(!rendered(&[]).contains("--client-ca-file"), "no client needs a certificate by default");
    let authorities = "webhook.clientAuthorities=api-servers";
    let mount = json!({"name": "client-authorities", "mountPath": "/client-authorities", "readOnly": true});
    let volume = json!({"name": "client-authorities", "configMap": {"name": "api-servers"}});
    for (values, volumes) in [(&[authorities][..], 1), (&[authorities, "webhook.certManager.enabled=true"], 2)] {
        let manifests = rendered(values);
        has_flags(document(&manifests, "Deployment", "giveway-webhook"), &[flag]);
        let pod = &pod_template(&manifests, "giveway-webhook")["spec"];
        let list = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
        let (mounts, all) = (list(&pod["containers"][0]["volumeMounts"]), list(&pod["volumes"]));
        assert_eq!((mounts.len(), all.len()), (volumes, volumes), "{values:?}");
        assert!(mounts.contains(&mount) && all.contains(&volume), "{values:?}: {pod:#}");
    }
    rejects("giveway-system", &["webhook.clientAuthorities=Api_Servers"], "clientAuthorities");
}

#[test]
fn the_guard_has_the_timeout_that_the_webhook_knows() {
    // The flag --guard-timeout-seconds has the timeout of the guard's entry as its default.
    let configuration = object(&rendered(&[]), "ValidatingWebhookConfiguration", "giveway");
    let guard = configuration["webhooks"].as_array().unwrap().iter().find(|entry| entry["name"] == "guard.giveway.dev");
    assert_eq!(guard.unwrap()["timeoutSeconds"], 30);
}
