// SPDX-License-Identifier: Apache-2.0
//! The server and request that a URL and the options name.

use super::Options;
use crate::shared::fault::{Fault, USAGE};
use url::Url;
use weir_core::request::{Alpn, perf_head};
use weir_quic::target::{Families, Lookup, Target};

/// Reads a URL and the options that change its path and address.
///
/// # Errors
/// The URL is not valid, with the right form; or a name can't be resolved.
pub fn target(text: &str, options: &Options, families: &Families) -> Result<Target, Fault> {
    let lookup = Lookup { connect: options.connection.connect.as_deref(), option: "--connect", families };
    let mut found = weir_quic::target::target(text, lookup, |url, typed| path(url, typed, options))?;
    if options.alpn == Alpn::Perf && (options.upload || perf_head(&found.path).is_none()) {
        let text = format!("URL '{text}': --alpn perf has only downloads by size: expected the path /bytes/N");
        return Err(Fault::new(USAGE, text));
    }
    if let Some(name) = &options.connection.server_name {
        found.host = name.clone();
    }
    Ok(found)
}

fn path(url: &Url, typed: &str, options: &Options) -> Result<String, String> {
    let bare = url.path() == "/" && url.query().is_none();
    Ok(match (bare, options.upload, options.bytes.first(), options.duration_s) {
        (false, false, Some(_), _) => return Err("has a path, which --bytes would contradict".to_owned()),
        (false, ..) => url[url::Position::BeforePath..].to_owned(),
        (true, true, ..) => "/upload".to_owned(),
        (true, false, Some(n), _) => format!("/bytes/{n}"),
        (true, false, None, Some(_)) => "/bytes/unlimited".to_owned(),
        // A typed slash is a path: the root of other servers.
        (true, false, None, None) if typed.ends_with('/') => "/".to_owned(),
        (true, false, None, None) => return Err("has no path and neither --bytes nor --duration-s is given".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::fault::CONNECT;
    use clap::Parser;
    use proptest::prelude::*;

    fn options(line: &str) -> Options {
        Options::try_parse_from(line.split_whitespace()).unwrap()
    }

    fn to(url: &str, options: &Options) -> Result<Target, Fault> {
        target(url, options, &Families::of_bind(options.connection.bind, "--bind"))
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
    fn perf_has_only_downloads_by_size() {
        let to = |path: &str, more: &str| to(&format!("https://h{path}"), &options(&format!("c u --alpn perf {more}")));
        assert_eq!(to("/bytes/5", "--connect 127.0.0.1").unwrap().path, "/bytes/5");
        assert_eq!(to("/upload", "--connect 127.0.0.1").unwrap_err().code, USAGE);
        assert_eq!(to("/bytes/5", "--connect 127.0.0.1 --upload").unwrap_err().code, USAGE);
    }

    #[test]
    fn a_server_name_replaces_the_host_for_tls_alone() {
        let t = to("https://127.0.0.1:4433/x", &options("c u --server-name localhost")).unwrap();
        assert_eq!((t.host.to_string().as_str(), t.authority.as_str()), ("localhost", "127.0.0.1:4433"));
        assert!(Options::try_parse_from(["c", "u", "--server-name", "a b"]).is_err());
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
