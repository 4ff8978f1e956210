//! Certificates of clients: with authorities for them, only a client with a certificate gets verdicts.

use super::client::*;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::PrivateKeyDer;
use std::path::{Path, PathBuf};
use tokio::io::AsyncReadExt;

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Writes the authority's certificate into a file.
fn file(authority: &Authority, directory: &Path) -> PathBuf {
    let path = directory.join("ca.crt");
    std::fs::write(&path, authority.pem()).unwrap();
    path
}

/// Returns a client's certificate of this authority.
fn client(authority: &Authority) -> Identity {
    let mut params = CertificateParams::default();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    (certificate.der().clone(), PrivateKeyDer::try_from(key.serialize_der()).unwrap())
}

#[tokio::test]
async fn with_authorities_for_clients_a_review_without_a_certificate_gets_401_and_no_verdict() {
    let (directory, authority) = (tempfile::tempdir().unwrap(), authority());
    let server = Server::authenticating(&file(&authority, directory.path())).await;
    for path in ["/mutate", "/templates", "/validate", "/guard", "/elsewhere"] {
        let answer = server.request(&format!("POST {path}"), REVIEW).await;
        assert_eq!(answer, (401, "a client certificate is required\n".to_owned()), "{path}");
    }
    assert_eq!(server.request("GET /readyz", b"").await.0, 200, "probes need no certificate");
    assert_eq!(server.request("GET /readyz", REVIEW).await.0, 401, "a body does");

    let mut known = handshake_as(server.address, &server.authority, Some(client(&authority))).await.unwrap();
    send(&mut known, "POST /mutate", REVIEW).await;
    let (status, body) = read_response(&mut known).await;
    assert!(status == 200 && body.contains(r#""uid":"u-1""#), "{status} {body}");
}

#[tokio::test]
async fn a_certificate_of_another_authority_gets_no_answer() {
    let (directory, own) = (tempfile::tempdir().unwrap(), authority());
    let server = Server::authenticating(&file(&own, directory.path())).await;
    let foreign = client(&authority());
    // The client notices at its first read that the server has rejected its certificate.
    let Ok(mut stream) = handshake_as(server.address, &server.authority, Some(foreign)).await else { return };
    let mut byte = [0];
    let read = tokio::time::timeout(PATIENCE, stream.read(&mut byte)).await.expect("the connection ends in time");
    assert!(!matches!(read, Ok(1..)), "{read:?}");
}

#[test]
fn a_file_without_authorities_is_reported_with_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ca.crt");
    let error = || {
        let made = giveway_webhook::tls::acceptor(provider(), std::sync::Arc::default(), Some(&path));
        made.map(|_| ()).unwrap_err().to_string()
    };
    assert!(error().contains("ca.crt: No such file"), "{}", error());
    std::fs::write(&path, "nothing").unwrap();
    assert!(error().ends_with("ca.crt: holds no certificate"), "{}", error());
}
