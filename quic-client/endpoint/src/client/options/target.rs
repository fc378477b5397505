// SPDX-License-Identifier: Apache-2.0
//! The server and request that a URL names, with its host name resolved.

use super::Options;
use crate::shared::fault::{CONNECT, Fault, USAGE};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use url::{Host, Url};

/// The server of a flow and what to ask it for.
#[derive(Debug, Clone)]
pub struct Target {
    /// Host, for the certificate.
    pub host: Host<String>,
    /// `host:port`, for the request.
    pub authority: String,
    /// Path and query of the request.
    pub path: String,
    /// The server's address.
    pub addr: SocketAddr,
}

/// The address families that can be used, and the option that says so.
#[derive(Debug, Clone)]
pub struct Families {
    /// IPv4 can be used.
    pub v4: bool,
    /// IPv6 can be used.
    pub v6: bool,
    /// The option that excludes a family, as typed.
    pub option: String,
    /// Exit code if the server has no address of the families left.
    pub code: u8,
}

impl Families {
    /// The family of the address in `--bind`, or both.
    pub fn of_bind(bind: Option<IpAddr>) -> Families {
        match bind {
            Some(ip) => Families { v4: ip.is_ipv4(), v6: ip.is_ipv6(), option: format!("--bind {ip}"), code: USAGE },
            None => Families { v4: true, v6: true, option: String::new(), code: USAGE },
        }
    }

    fn fits(&self, addr: &SocketAddr) -> bool {
        if addr.is_ipv6() { self.v6 } else { self.v4 }
    }
}

/// Reads a URL and the options that change its path and address.
///
/// # Errors
/// What is wrong with the URL and what would be right; a name that can't be resolved.
pub fn target(text: &str, options: &Options, from: &Families) -> Result<Target, Fault> {
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
    let addr = match &options.connect {
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
        assert_eq!(to("https://h/x", &options("c u --connect nowhere")).unwrap_err().code, USAGE);
        assert_eq!(to("https://[::1]/x", &options("c u --bind 127.0.0.1")).unwrap_err().code, USAGE);
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
