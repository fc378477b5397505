// SPDX-License-Identifier: Apache-2.0
//! An authority, and certificates that it signs.
use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair};
use tonic::transport::{Certificate, ClientTlsConfig, Identity};
use weir_switch::p4runtime::{Pem, Tls};

pub struct Authority {
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// Certificate and key, in PEM.
pub type Signed = (String, String);

impl Authority {
    pub fn new() -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Authority { pem, issuer: Issuer::new(params, key) }
    }

    /// For a server of that name, or a client with it as its subject's common name.
    pub fn sign(&self, name: &str) -> Signed {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_string()]).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "Example");
        params.distinguished_name.push(DnType::CommonName, name);
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    /// A server that takes only clients with a certificate of this authority.
    pub fn server(&self) -> Tls {
        let (certificate, key) = self.sign("localhost");
        Tls {
            certificate: pem("certificate", &certificate),
            key: pem("key", &key),
            client_authority: Some(pem("authority", &self.pem)),
        }
    }

    /// A client that trusts this authority's servers.
    pub fn client(&self, own: Option<&Signed>) -> ClientTlsConfig {
        let trust = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&self.pem)).domain_name("localhost");
        match own {
            Some((certificate, key)) => trust.identity(Identity::from_pem(certificate, key)),
            None => trust,
        }
    }
}

pub fn pem(from: &str, text: &str) -> Pem {
    Pem { from: from.into(), text: text.as_bytes().to_vec() }
}
