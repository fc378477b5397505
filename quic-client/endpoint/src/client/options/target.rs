// SPDX-License-Identifier: Apache-2.0
//! The server and request that a URL names, with its host name resolved.

use super::Options;
use crate::shared::fault::{CONNECT, Fault, USAGE};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use url::{Host, Url};
use weir_io::address::{ZonedIp, with_zone};

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
    /// The family of the address in `--bind`, or both.
    pub fn of_bind(bind: Option<ZonedIp>) -> Families {
        let (v4, v6) = bind.map_or((true, true), |b| (b.ip.is_ipv4(), b.ip.is_ipv6() && b.zone == 0));
        let link_local = bind.is_none_or(|b| b.ip.is_ipv6());
        let no = |usable: bool| bind.filter(|_| !usable).map(|b| format!("--bind {b}"));
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

/// Reads a URL and the options that change its path and address.
///
/// # Errors
/// The URL is not valid, with the right form; or a name can't be resolved.
pub fn target(text: &str, options: &Options, from: &Families) -> Result<Target, Fault> {
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
    let bare = url.path() == "/" && url.query().is_none();
    let path = match (bare, options.upload, options.bytes, options.duration_s) {
        (false, false, Some(_), _) => return Err(usage("has a path, which --bytes would contradict")),
        (false, ..) => url[url::Position::BeforePath..].to_owned(),
        (true, true, ..) => "/upload".to_owned(),
        (true, false, Some(n), _) => format!("/bytes/{n}"),
        (true, false, None, Some(_)) => "/bytes/unlimited".to_owned(),
        // With the slash typed out it is a path: the root of a server other than ours.
        (true, false, None, None) if text.ends_with('/') => "/".to_owned(),
        (true, false, None, None) => return Err(usage("has no path and neither --bytes nor --duration-s is given")),
    };
    if path.len() > 2048 {
        return Err(usage("the path is longer than 2048 bytes"));
    }
    let authority = format!("{host}:{port}");
    let all = match &options.connect {
        Some(text) => connect(text, port)?,
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

/// The addresses that --connect names: HOST or HOST:PORT, the host being an address or a name.
fn connect(text: &str, port: u16) -> Result<Vec<SocketAddr>, Fault> {
    let bare = text.parse::<Ipv6Addr>().is_ok() || !text.starts_with('[') && text.contains('%');
    let url = if bare { format!("https://[{text}]") } else { format!("https://{text}") };
    let (url, zone) = without_zone(&url);
    let wrong = || {
        let text = format!("--connect '{text}': expected HOST or HOST:PORT, the host being a name or an address");
        Fault::new(USAGE, text)
    };
    let url = Url::parse(&url).map_err(|_| wrong())?;
    let empty = url.path() == "/" && url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
    let host = url.host().filter(|_| empty).ok_or_else(wrong)?.to_owned();
    resolve(&host, explicit_port(text).unwrap_or(port), zone.as_deref())
        .map_err(|e| if e.code == USAGE { Fault::new(USAGE, format!("--connect '{text}': {}", e.text)) } else { e })
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
    use clap::Parser;
    use proptest::prelude::*;

    fn options(line: &str) -> Options {
        Options::try_parse_from(line.split_whitespace()).unwrap()
    }

    fn to(url: &str, options: &Options) -> Result<Target, Fault> {
        target(url, options, &Families::of_bind(options.bind))
    }

    #[test]
    fn paths_follow_from_the_options() {
        let path = |line: &str| to("https://127.0.0.1:4433", &options(line)).map(|t| t.path);
        assert_eq!(path("c u --bytes 10kB").unwrap(), "/bytes/10000");
        assert_eq!(path("c u --duration-s 3").unwrap(), "/bytes/unlimited");
        assert_eq!(path("c u --upload --bytes 1").unwrap(), "/upload");
        assert_eq!(path("c u").unwrap_err().code, USAGE);
        let t = to("https://[::1]/a/b?c=d", &options("c u")).unwrap();
        assert_eq!((t.path.as_str(), t.authority.as_str()), ("/a/b?c=d", "[::1]:443"));
        assert_eq!(t.addr, "[::1]:443".parse().unwrap());
    }

    #[test]
    fn a_url_that_is_none_says_what_would_be() {
        for bad in ["", "x", "http://h/", "https://", "https://u@h/x", "https://h:99999/x", "https://h/x#y"] {
            let e = to(bad, &options("c u")).unwrap_err();
            assert!(e.code == USAGE && e.text.contains("expected https://"), "{bad}: {e}");
        }
        assert_eq!(to("https://no-such-host.invalid/x", &options("c u")).unwrap_err().code, CONNECT);
        assert_eq!(to("https://h/x", &options("c u --connect a/b")).unwrap_err().code, USAGE);
        assert_eq!(to("https://h/x", &options("c u --connect no-such-host.invalid")).unwrap_err().code, CONNECT);
        assert_eq!(to("https://[fe80::1%25no-such-if]/x", &options("c u")).unwrap_err().code, USAGE);
        assert_eq!(to("https://[::1]/x", &options("c u --bind 127.0.0.1")).unwrap_err().code, USAGE);
        let e = to("https://127.0.0.1/x", &options("c u --bind fe80::1%lo")).unwrap_err();
        assert!(e.code == USAGE && e.text.starts_with("--bind fe80::1%lo "), "{e}");
    }

    #[test]
    fn addresses_with_a_zone() {
        for url in ["https://[fe80::1%25lo]:4433/x", "https://[fe80::1%lo]:4433/x", "https://[fe80::1%251]:4433/x"] {
            let t = to(url, &options("c u")).unwrap();
            assert_eq!(
                (t.authority.as_str(), t.addr),
                ("[fe80::1]:4433", "[fe80::1%1]:4433".parse().unwrap()),
                "{url}"
            );
        }
        for (text, addr) in [
            ("[fe80::1%lo]:5", "[fe80::1%1]:5"),
            ("fe80::1%lo", "[fe80::1%1]:443"),
            ("::1", "[::1]:443"),
            ("[::1]:443", "[::1]:443"),
            ("127.0.0.1", "127.0.0.1:443"),
            ("127.0.0.1:7", "127.0.0.1:7"),
        ] {
            let t = to("https://h/x", &options(&format!("c u --connect {text}"))).unwrap();
            assert_eq!((t.authority.as_str(), t.addr), ("h:443", addr.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn families_take_turns() {
        let of = |all: &[&str]| all.iter().map(|a| a.parse().unwrap()).collect::<Vec<SocketAddr>>();
        let all = of(&["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1", "1.1.1.2:1"]);
        assert_eq!(in_turn(all), of(&["[::1]:1", "1.1.1.1:1", "[::2]:1", "1.1.1.2:1", "[::3]:1"]));
        assert_eq!(in_turn(Vec::new()), []);
    }

    proptest! {
        #[test]
        fn any_text_as_a_url(s in "\\PC{0,60}") {
            let a = options("c u --connect 127.0.0.1:1");
            for text in [s.clone(), format!("https://{s}"), format!("https://h/{s}")] {
                if let Ok(t) = to(&text, &a) {
                    prop_assert!(t.path.starts_with('/') && t.path.is_ascii() && !t.path.contains(char::is_whitespace));
                }
            }
        }
    }
}
