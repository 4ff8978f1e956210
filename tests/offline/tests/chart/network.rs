//! Network policies, and the certificate of the webhook.

use crate::helm::{document, rendered};

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
