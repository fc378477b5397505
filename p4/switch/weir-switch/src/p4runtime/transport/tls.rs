// SPDX-License-Identifier: Apache-2.0
//! Certificates and keys, looked at one by one so that a message can name the file that is wrong.
use super::with_cause;
use rustls_pki_types::pem::{Error, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};

/// A PEM text.
#[derive(Clone, Debug)]
pub struct Pem {
    /// Where it comes from, for messages.
    pub from: String,
    /// Its bytes.
    pub text: Vec<u8>,
}

/// The server's identity, and whom it lets in.
#[derive(Clone, Debug)]
pub struct Tls {
    /// One certificate, or a chain of them, the server's own first.
    pub certificate: Pem,
    /// The key of the first certificate.
    pub key: Pem,
    /// When set, controllers must show a certificate that this authority signed.
    pub client_authority: Option<Pem>,
}

fn has_certificate(pem: &Pem) -> Result<(), String> {
    let what = "it is to hold one certificate or more in PEM (-----BEGIN CERTIFICATE-----)";
    let list: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem.text).collect();
    match list {
        Ok(list) if list.is_empty() => Err(format!("{}: there is no certificate in it; {what}", pem.from)),
        Ok(_) => Ok(()),
        Err(e) => Err(format!("{}: {e}; {what}", pem.from)),
    }
}

impl Tls {
    /// Configuration for tonic.
    ///
    /// # Errors
    /// Invalid file, or two files that do not fit together.
    pub fn config(&self) -> Result<ServerTlsConfig, String> {
        has_certificate(&self.certificate)?;
        if let Err(e) = PrivateKeyDer::from_pem_slice(&self.key.text) {
            let why = if matches!(e, Error::NoItemsFound) { "there is no key in it".into() } else { e.to_string() };
            return Err(format!("{}: {why}; it is to hold a key in PEM (-----BEGIN PRIVATE KEY-----)", self.key.from));
        }
        let own = ServerTlsConfig::new().identity(Identity::from_pem(&self.certificate.text, &self.key.text));
        if let Err(e) = Server::builder().tls_config(own.clone()) {
            let what = format!("{} with {}", self.certificate.from, self.key.from);
            return Err(with_cause(&what, &e));
        }
        let Some(authority) = &self.client_authority else { return Ok(own) };
        has_certificate(authority)?;
        let both = own.client_ca_root(Certificate::from_pem(&authority.text));
        match Server::builder().tls_config(both.clone()) {
            Ok(_) => Ok(both),
            Err(e) => Err(with_cause(&authority.from, &e)),
        }
    }
}
