// SPDX-License-Identifier: Apache-2.0
//! TLS contexts of both sides.

use crate::cert::Identity;
use crate::fault::{Fault, IO};
use boring::ssl::{SslContextBuilder, SslMethod, SslRef};
use boring::x509::{X509, X509VerifyError};
use std::net::IpAddr;
use std::path::Path;

/// A server's, with its certificate and key.
///
/// # Errors
/// The TLS library fails.
pub fn server(identity: &Identity) -> Result<SslContextBuilder, Fault> {
    let mut ctx = SslContextBuilder::new(SslMethod::tls()).map_err(Fault::internal("TLS library"))?;
    let mut chain = identity.chain.iter();
    if let Some(leaf) = chain.next() {
        ctx.set_certificate(leaf).map_err(Fault::internal("TLS library"))?;
    }
    for cert in chain {
        ctx.add_extra_chain_cert(cert.clone()).map_err(Fault::internal("TLS library"))?;
    }
    ctx.set_private_key(&identity.key).map_err(Fault::internal("TLS library"))?;
    Ok(ctx)
}

/// A client's, with the certificates to trust: those of the file `ca`, or the system's. `prefix` stands before the names of
/// settings in errors: `--` on a command line.
///
/// # Errors
/// The file `ca` can't be read or has no certificate.
pub fn client(ca: Option<&Path>, prefix: &str) -> Result<SslContextBuilder, Fault> {
    let mut ctx = SslContextBuilder::new(SslMethod::tls()).map_err(Fault::internal("TLS library"))?;
    let Some(path) = ca else {
        ctx.set_default_verify_paths().map_err(Fault::internal("TLS library"))?;
        return Ok(ctx);
    };
    let pem = std::fs::read(path).map_err(Fault::io(format!("{prefix}ca {}", path.display())))?;
    let certs = X509::stack_from_pem(&pem).unwrap_or_default();
    if certs.is_empty() {
        let text = format!("{prefix}ca {}: expected one or more certificates in PEM form", path.display());
        return Err(Fault::new(IO, text));
    }
    for cert in certs {
        ctx.cert_store_mut().add_cert(&cert).map_err(Fault::internal("TLS library"))?;
    }
    Ok(ctx)
}

/// Reason why the peer's certificate was rejected, with the settings that help, `prefix` before their names; `None`: it was
/// not rejected.
pub fn certificate_fault(ssl: &SslRef, prefix: &str) -> Option<String> {
    let e = ssl.verify_result().err()?;
    let another = [X509VerifyError::HOSTNAME_MISMATCH, X509VerifyError::IP_ADDRESS_MISMATCH];
    Some(match another.contains(&e) {
        true => format!("it is for another name; {prefix}insecure accepts any certificate"),
        false => {
            format!("{}; {prefix}ca FILE trusts a certificate, {prefix}insecure accepts any", e.error_string())
        }
    })
}

/// Makes a connection check that the certificate is for this address. quiche checks names alone; without this any
/// trusted certificate would do for an address.
///
/// # Errors
/// The TLS library fails.
pub fn expect_address(ssl: &mut SslRef, ip: IpAddr) -> Result<(), Fault> {
    ssl.verify_param_mut().set_ip(ip).map_err(Fault::internal("TLS library"))
}
