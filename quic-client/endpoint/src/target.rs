// SPDX-License-Identifier: Apache-2.0
//! Where a flow goes: a URL, resolved.

use crate::client::Args;
use crate::fault::{CONNECT, Fault, USAGE};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use url::{Host, Url};

/// Where a flow goes.
#[derive(Debug, Clone)]
pub struct Target {
    /// Host, for the certificate.
    pub host: Host<String>,
    /// `host:port`, for the request.
    pub authority: String,
    /// Path asked for.
    pub path: String,
    /// Where packets go.
    pub addr: SocketAddr,
}

/// Address families to send from, and who says so.
#[derive(Debug, Clone)]
pub struct Families {
    /// IPv4 can be used.
    pub v4: bool,
    /// IPv6 can be used.
    pub v6: bool,
    /// Option that leaves one out, as typed.
    pub option: String,
    /// Exit code where it leaves no way to the server.
    pub code: u8,
}

impl Families {
    fn fits(&self, addr: &SocketAddr) -> bool {
        if addr.is_ipv6() { self.v6 } else { self.v4 }
    }
}

/// Reads a URL, and what the options say about its path and address.
///
/// # Errors
/// What is wrong with the URL and what would be right; a name that can't be resolved.
pub fn target(text: &str, args: &Args, from: &Families) -> Result<Target, Fault> {
    let usage = |why: &str| Fault::new(USAGE, format!("URL '{text}': {why}: expected https://HOST[:PORT][/PATH]"));
    let url = Url::parse(text).map_err(|e| usage(&e.to_string()))?;
    if url.scheme() != "https" {
        return Err(usage(&format!("scheme '{}' not supported", url.scheme())));
    }
    if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
        return Err(usage("user names and fragments are not supported"));
    }
    let host = url.host().ok_or_else(|| usage("no host"))?.to_owned();
    let port = url.port_or_known_default().unwrap_or(443);
    let bare = url.path() == "/" && url.query().is_none();
    let path = match (bare, args.upload, args.bytes, args.duration_s) {
        (false, false, Some(_), _) => return Err(usage("has a path, which --bytes would contradict")),
        (false, ..) => url[url::Position::BeforePath..].to_owned(),
        (true, true, ..) => "/upload".to_owned(),
        (true, false, Some(n), _) => format!("/bytes/{n}"),
        (true, false, None, Some(_)) => "/bytes/unlimited".to_owned(),
        // With its slash it is a path after all: the root of some other server.
        (true, false, None, None) if text.ends_with('/') => "/".to_owned(),
        (true, false, None, None) => return Err(usage("has no path and neither --bytes nor --duration-s is given")),
    };
    if path.len() > 2048 {
        return Err(usage("the path is longer than 2048 bytes"));
    }
    let authority = format!("{host}:{port}");
    let addr = match &args.connect {
        Some(text) => text
            .parse::<SocketAddr>()
            .or_else(|_| text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, port)))
            .map_err(|_| Fault::new(USAGE, format!("--connect '{text}': expected ADDRESS or ADDRESS:PORT")))?,
        None => resolve(&host, port, from)?,
    };
    if !from.fits(&addr) {
        let text = format!("{} and the server's {addr} are of different address families", from.option);
        return Err(Fault::new(from.code, text));
    }
    Ok(Target { host, authority, path, addr })
}

fn resolve(host: &Host<String>, port: u16, from: &Families) -> Result<SocketAddr, Fault> {
    let name = match host {
        Host::Ipv4(ip) => return Ok(SocketAddr::new(IpAddr::V4(*ip), port)),
        Host::Ipv6(ip) => return Ok(SocketAddr::new(IpAddr::V6(*ip), port)),
        Host::Domain(name) => name,
    };
    let failed = |why: String| Fault::new(CONNECT, format!("cannot resolve host '{name}': {why}"));
    let all: Vec<_> = (name.as_str(), port).to_socket_addrs().map_err(|e| failed(e.to_string()))?.collect();
    let fitting = all.iter().find(|a| from.fits(a));
    fitting.or(all.first()).copied().ok_or_else(|| failed("it has no address".to_owned()))
}
