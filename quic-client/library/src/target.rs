// SPDX-License-Identifier: Apache-2.0
//! The server and request that a URL names, with its host name resolved.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use url::{Host, Url};
use weir_io::address::{ZonedIp, with_zone};
use weir_io::fault::{CONNECT, Fault, USAGE};

/// The server of a flow and its resource.
#[derive(Debug, Clone)]
pub struct Target {
    /// Host, for the certificate.
    pub host: Host<String>,
    /// `host:port`, for the request.
    pub authority: String,
    /// Path and query of the request.
    pub path: String,
    /// The server's address that is used.
    pub addr: SocketAddr,
    /// Its other addresses, in the order in which they are tried.
    pub others: Vec<SocketAddr>,
}

/// The address families that can be used. Each has the option that excludes it, as typed; `None`: it can be used.
#[derive(Debug, Clone)]
pub struct Families {
    /// IPv4.
    pub no_v4: Option<String>,
    /// IPv6.
    pub no_v6: Option<String>,
    /// IPv6 to hosts of one link (RFC 4291 2.5.6).
    pub no_link_local: Option<String>,
    /// Exit code if the server has no address of the families left.
    pub code: u8,
}

impl Families {
    /// The family of the address to send from, or both. `option` stands before it in errors, such as `--bind`.
    pub fn of_bind(bind: Option<ZonedIp>, option: &str) -> Families {
        let (v4, v6) = bind.map_or((true, true), |b| (b.ip.is_ipv4(), b.ip.is_ipv6() && b.zone == 0));
        let link_local = bind.is_none_or(|b| b.ip.is_ipv6());
        let no = |usable: bool| bind.filter(|_| !usable).map(|b| format!("{option} {b}"));
        Families { no_v4: no(v4), no_v6: no(v6), no_link_local: no(link_local), code: USAGE }
    }

    fn excluded_by(&self, addr: &SocketAddr) -> Option<&str> {
        let option = match addr {
            SocketAddr::V4(_) => &self.no_v4,
            SocketAddr::V6(addr) if addr.ip().is_unicast_link_local() => &self.no_link_local,
            SocketAddr::V6(_) => &self.no_v6,
        };
        option.as_deref()
    }
}

/// Where a URL leads.
#[derive(Debug, Clone, Copy)]
pub struct Lookup<'a> {
    /// A host, or `HOST:PORT`, in place of the URL's.
    pub connect: Option<&'a str>,
    /// Word before that in errors, such as `--connect`.
    pub option: &'a str,
    /// Families that can be used.
    pub families: &'a Families,
}

/// Path and query of a URL, as typed; `/` for none.
///
/// # Errors
/// None.
pub fn path_of(url: &Url, _typed: &str) -> Result<String, String> {
    Ok(url[url::Position::BeforePath..].to_owned())
}

/// Reads a URL and resolves its host, which may take as long as the resolver does. `path` gives the path of the request
/// from the URL and its text, or the reason why there is none.
///
/// # Errors
/// The URL is not valid, with the right form; or a name can't be resolved.
pub fn target(
    text: &str,
    lookup: Lookup<'_>,
    path: impl FnOnce(&Url, &str) -> Result<String, String>,
) -> Result<Target, Fault> {
    let usage = |why: &str| Fault::new(USAGE, format!("URL '{text}': {why}: expected https://HOST[:PORT][/PATH]"));
    let (bare_text, zone) = without_zone(text);
    let url = Url::parse(&bare_text).map_err(|e| usage(&e.to_string()))?;
    if url.scheme() != "https" {
        return Err(usage(&format!("scheme '{}' not supported", url.scheme())));
    }
    if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
        return Err(usage("user names and fragments are not supported"));
    }
    let host = url.host().ok_or_else(|| usage("no host"))?.to_owned();
    let port = url.port_or_known_default().unwrap_or(443);
    let path = path(&url, text).map_err(|why| usage(&why))?;
    if path.len() > 2048 {
        return Err(usage("the path is longer than 2048 bytes"));
    }
    let authority = format!("{host}:{port}");
    let from = lookup.families;
    let all = match lookup.connect {
        Some(text) => connect(text, port, lookup.option)?,
        None => resolve(&host, port, zone.as_deref()).map_err(|e| if e.code == USAGE { usage(&e.text) } else { e })?,
    };
    let mut fitting = in_turn(all.iter().copied().filter(|a| from.excluded_by(a).is_none()).collect()).into_iter();
    let Some(addr) = fitting.next() else {
        let option = from.excluded_by(&all[0]).unwrap_or_default();
        let text = format!("{option} and the server's {} are of different address families or links", all[0]);
        return Err(Fault::new(from.code, text));
    };
    Ok(Target { host, authority, path, addr, others: fitting.collect() })
}

/// A URL without the zone of its address, `https://[fe80::1%25eth0]/`, which belongs to this host alone (RFC 6874), and
/// the zone. A bare % is taken too, as most programs do.
fn without_zone(text: &str) -> (Cow<'_, str>, Option<String>) {
    let parts = || {
        let (scheme, rest) = text.split_once("://[")?;
        let (address, rest) = rest.split_once(']')?;
        let (address, zone) = address.split_once('%')?;
        let zone = zone.strip_prefix("25").filter(|zone| !zone.is_empty()).unwrap_or(zone);
        Some((format!("{scheme}://[{address}]{rest}"), zone.to_owned()))
    };
    parts().map_or((Cow::Borrowed(text), None), |(text, zone)| (Cow::Owned(text), Some(zone)))
}

/// The addresses of a host. There is at least one.
fn resolve(host: &Host<String>, port: u16, zone: Option<&str>) -> Result<Vec<SocketAddr>, Fault> {
    let name = match host {
        Host::Ipv4(ip) => return Ok(vec![SocketAddr::new(IpAddr::V4(*ip), port)]),
        Host::Ipv6(ip) => {
            let zoned = with_zone(IpAddr::V6(*ip), zone).map_err(|e| Fault::new(USAGE, e.to_string()))?;
            return Ok(vec![zoned.with_port(port)]);
        }
        Host::Domain(name) => name,
    };
    let failed = |why: String| Fault::new(CONNECT, format!("cannot resolve host '{name}': {why}"));
    let all: Vec<_> = (name.as_str(), port).to_socket_addrs().map_err(|e| failed(e.to_string()))?.collect();
    if all.is_empty() { Err(failed("it has no address".to_owned())) } else { Ok(all) }
}

/// The addresses of HOST or HOST:PORT, the host being an address or a name.
fn connect(text: &str, port: u16, option: &str) -> Result<Vec<SocketAddr>, Fault> {
    let bare = text.parse::<Ipv6Addr>().is_ok() || !text.starts_with('[') && text.contains('%');
    let url = if bare { format!("https://[{text}]") } else { format!("https://{text}") };
    let (url, zone) = without_zone(&url);
    let wrong = || {
        let text = format!("{option} '{text}': expected HOST or HOST:PORT, the host being a name or an address");
        Fault::new(USAGE, text)
    };
    let url = Url::parse(&url).map_err(|_| wrong())?;
    let empty = url.path() == "/" && url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
    let host = url.host().filter(|_| empty).ok_or_else(wrong)?.to_owned();
    resolve(&host, explicit_port(text).unwrap_or(port), zone.as_deref())
        .map_err(|e| if e.code == USAGE { Fault::new(USAGE, format!("{option} '{text}': {}", e.text)) } else { e })
}

/// The port in HOST:PORT: `Url` hides one that is its scheme's default.
fn explicit_port(text: &str) -> Option<u16> {
    let (host, port) = text.rsplit_once(':')?;
    let is_whole = host.ends_with(']') || !host.contains(':');
    port.parse().ok().filter(|_| is_whole)
}

/// Addresses in the order in which they are tried: the families in turn, that of the first address first (RFC 8305 4).
fn in_turn(all: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let Some(first) = all.first() else { return all };
    let v6 = first.is_ipv6();
    let (mut these, mut those): (VecDeque<_>, VecDeque<_>) = all.into_iter().partition(|a| a.is_ipv6() == v6);
    let mut ordered = Vec::new();
    while !these.is_empty() || !those.is_empty() {
        ordered.extend(these.pop_front());
        ordered.extend(those.pop_front());
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_take_turns() {
        let of = |all: &[&str]| all.iter().map(|a| a.parse().unwrap()).collect::<Vec<SocketAddr>>();
        let all = of(&["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1", "1.1.1.2:1"]);
        assert_eq!(in_turn(all), of(&["[::1]:1", "1.1.1.1:1", "[::2]:1", "1.1.1.2:1", "[::3]:1"]));
        assert_eq!(in_turn(Vec::new()), []);
    }
}
