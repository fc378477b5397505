// SPDX-License-Identifier: Apache-2.0
//! TLS of the client: which certificates it accepts, and why it refused one.

use super::options::Options;
use crate::shared::fault::{Fault, IO};
use boring::ssl::{SslContextBuilder, SslMethod, SslRef};
use boring::x509::{X509, X509VerifyError};
use std::net::IpAddr;
use url::Host;
use weir_core::client::{Outcome, Session};
use weir_core::transport::Transport;

/// Makes quiche's configuration with the certificates to trust.
///
/// # Errors
/// A file of `--ca` that can't be read or has no certificate.
pub fn config(options: &Options, transport: &Transport) -> Result<quiche::Config, Fault> {
    let mut ctx = SslContextBuilder::new(SslMethod::tls()).map_err(Fault::internal("TLS library"))?;
    match &options.ca {
        Some(path) => {
            let pem = std::fs::read(path).map_err(Fault::io(format!("--ca {}", path.display())))?;
            let certs = X509::stack_from_pem(&pem).unwrap_or_default();
            if certs.is_empty() {
                let text = format!("--ca {}: expected one or more certificates in PEM form", path.display());
                return Err(Fault::new(IO, text));
            }
            for cert in certs {
                ctx.cert_store_mut().add_cert(&cert).map_err(Fault::internal("TLS library"))?;
            }
        }
        None => ctx.set_default_verify_paths().map_err(Fault::internal("TLS library"))?,
    }
    let mut config = quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, ctx)
        .map_err(Fault::internal("QUIC library"))?;
    config.verify_peer(!options.insecure);
    transport.apply(&mut config).map_err(Fault::internal("QUIC library"))?;
    Ok(config)
}

/// Adds to a failed handshake's message why the certificate was refused.
pub fn explain_certificate(session: &mut Session) {
    if !matches!(session.outcome(), Some(Outcome::Tls(_))) || session.conn.quic.local_error().is_none() {
        return;
    }
    let ssl: &mut SslRef = session.conn.quic.as_mut();
    if let Err(e) = ssl.verify_result() {
        let another = [X509VerifyError::HOSTNAME_MISMATCH, X509VerifyError::IP_ADDRESS_MISMATCH];
        let why = if another.contains(&e) { "it is for another name" } else { e.error_string() };
        session.explain(&format!(", {why}"));
    }
}

/// Makes a connection to `target` check the certificate's address, where the URL has an address for a host. quiche checks
/// names alone; without this any trusted certificate would do for an address.
///
/// # Errors
/// The TLS library fails.
pub fn expect_address(quic: &mut quiche::Connection, host: &Host<String>) -> Result<(), Fault> {
    let ip = match host {
        Host::Ipv4(ip) => IpAddr::V4(*ip),
        Host::Ipv6(ip) => IpAddr::V6(*ip),
        Host::Domain(_) => return Ok(()),
    };
    let ssl: &mut SslRef = quic.as_mut();
    ssl.verify_param_mut().set_ip(ip).map_err(Fault::internal("TLS library"))
}
