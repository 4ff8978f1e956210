//! The certificates and keys of one control plane, generated at its start.

use anyhow::{Context as _, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

/// A certificate authority for servers and clients.
pub struct Pki {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its private key, both as PEM.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// The private key, PKCS #8.
    pub key: String,
}

impl Pki {
    /// Generates a new authority.
    ///
    /// # Errors
    /// If key generation fails.
    pub fn generate() -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name = name("giveway-test-ca", &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?).context("signing the test CA")?;
        Ok(Self { issuer })
    }

    /// Returns the authority's certificate as PEM.
    pub fn ca(&self) -> String {
        self.issuer.pem()
    }

    /// Returns a certificate for a server on this machine, with these further names and addresses.
    ///
    /// # Errors
    /// If key generation fails.
    pub fn server(&self, more: &[String]) -> Result<Identity> {
        let own = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut params = CertificateParams::new([&own, more].concat())?;
        params.distinguished_name = name("localhost", &[]);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(params)
    }

    /// Returns a client certificate for this user in these groups.
    ///
    /// # Errors
    /// If key generation fails.
    pub fn client(&self, user: &str, groups: &[&str]) -> Result<Identity> {
        let mut params = CertificateParams::default();
        params.distinguished_name = name(user, groups);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    fn sign(&self, mut params: CertificateParams) -> Result<Identity> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer).context("signing a test certificate")?;
        Ok(Identity { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

/// The key pair (ECDSA P-256, PEM) that signs and verifies ServiceAccount tokens.
pub struct TokenKey {
    /// The private key, PKCS #8.
    pub private: String,
    /// The public key.
    pub public: String,
}

impl TokenKey {
    /// Generates a new key pair.
    ///
    /// # Errors
    /// If key generation fails.
    pub fn generate() -> Result<Self> {
        let key = KeyPair::generate()?;
        Ok(Self { private: key.serialize_pem(), public: key.public_key_pem() })
    }
}

fn name(common: &str, organizations: &[&str]) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common);
    for organization in organizations {
        name.push(DnType::OrganizationName, *organization);
    }
    name
}
