// SPDX-License-Identifier: Apache-2.0
//! TLS of the client: certificates that it accepts, and the reason why one was rejected.

use boring::ssl::SslRef;
use std::net::IpAddr;
use std::path::Path;
use url::Host;
use weir_core::client::{Outcome, Session};
use weir_core::transport::Transport;
use weir_io::fault::Fault;
use weir_io::tls;

/// Makes quiche's configuration with the certificates to trust: those of the file `ca`, or the system's. With `insecure`
/// any certificate is accepted. `prefix` stands before the names of settings in errors.
///
/// # Errors
/// A file of `ca` that can't be read or has no certificate.
pub fn config(ca: Option<&Path>, insecure: bool, transport: &Transport, prefix: &str) -> Result<quiche::Config, Fault> {
    let ctx = tls::client(ca, prefix)?;
    let mut config = quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, ctx)
        .map_err(Fault::internal("QUIC library"))?;
    config.verify_peer(!insecure);
    transport.apply(&mut config).map_err(Fault::internal("QUIC library"))?;
    Ok(config)
}

/// Adds to a failed handshake's message why the certificate was rejected.
pub fn explain_certificate(session: &mut Session, prefix: &str) {
    if !matches!(session.outcome(), Some(Outcome::Tls(_))) || session.conn.quic.local_error().is_none() {
        return;
    }
    let ssl: &mut SslRef = session.conn.quic.as_mut();
    if let Some(why) = tls::certificate_fault(ssl, prefix) {
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
    tls::expect_address(quic.as_mut(), ip)
}
