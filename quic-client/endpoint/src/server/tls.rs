// SPDX-License-Identifier: Apache-2.0
//! TLS of the server: its certificate and key.

use super::options::Options;
use super::stateless_reset::ResetTokens;
use weir_core::request::Alpn;
use weir_io::cert::{Choice, identity};
use weir_io::fault::Fault;
use weir_io::tls;

/// Datagrams of tunnels that a connection keeps, in each direction.
const MOST_DATAGRAMS: usize = 256;

/// Makes quiche's configuration with the server's certificate, and the tokens of stateless resets.
///
/// # Errors
/// A certificate that can't be read, made or written.
pub fn config(options: &Options) -> Result<(quiche::Config, ResetTokens), Fault> {
    let listened = (!options.listen.ip().is_unspecified()).then(|| options.listen.ip().to_string());
    let identity = identity(&Choice {
        given: options.cert.clone().zip(options.key.clone()),
        ephemeral: options.ephemeral,
        state_dir: options.state_dir.clone(),
        names: listened.into_iter().chain(options.name.iter().cloned()).collect(),
    })?;
    let mut config = quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, tls::server(&identity)?)
        .map_err(Fault::internal("QUIC library"))?;
    options.common.transport(vec![Alpn::H3, Alpn::Hq])?.apply(&mut config).map_err(Fault::internal("QUIC library"))?;
    if options.relay.relay {
        config.enable_dgram(true, MOST_DATAGRAMS, MOST_DATAGRAMS);
    }
    config.set_active_connection_id_limit(options.max_cids);
    config.set_disable_active_migration(options.forbid_migration);
    Ok((config, ResetTokens::new(&identity.key)?))
}
