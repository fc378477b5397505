// SPDX-License-Identifier: Apache-2.0
//! Destinations that the relay connects to. The decision is on the address that is dialled, so that a name that leads
//! to another address later (DNS rebinding) opens nothing.

use ipnet::IpNet;
use std::net::IpAddr;
use std::sync::LazyLock;
use url::Host;

/// Mail is sent there without a user's authentication.
const SMTP: u16 = 25;

/// Special-purpose addresses that are not globally reachable, or lead to others (IANA registries, RFC 6890).
static SPECIAL: LazyLock<Vec<IpNet>> = LazyLock::new(|| {
    let texts = "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 \
                 192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/3 \
                 2001::/23 2001:db8::/32 2002::/16 3fff::/20";
    texts.split_whitespace().filter_map(|text| text.parse().ok()).collect()
});
/// Global unicast addresses of IPv6 (RFC 4291 2.4, IANA).
static UNICAST: LazyLock<Option<IpNet>> = LazyLock::new(|| "2000::/3".parse().ok());

/// One entry of `--relay-allow`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    target: Target,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Target {
    /// Addresses of the Internet.
    Public,
    /// This name, as far as its addresses are public.
    Name(String),
    /// These addresses, of whatever kind.
    Net(IpNet),
}

impl Rule {
    fn has_port(&self, port: u16) -> bool {
        match self.port {
            Some(listed) => listed == port,
            None => port != SMTP,
        }
    }
}

/// Reads an entry of `--relay-allow`.
///
/// # Errors
/// It is none; the text says what is expected.
pub fn rule(text: &str) -> Result<Rule, String> {
    let bad = || {
        format!(
            "'{text}' is not a destination: expected public, a host name, an address or a CIDR prefix, with :PORT or \
                 without, such as example.org:443, 192.0.2.0/24 or [2001:db8::/32]:22"
        )
    };
    let net = |text: &str| text.parse::<IpNet>().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from));
    // 10.1.2.3/8 may mean less, and addresses of IPv4 inside IPv6 are judged as IPv4.
    let is_clear = |net: &IpNet| net.trunc() == *net && net.addr().to_canonical() == net.addr();
    let net = |text: &str| net(text).filter(is_clear);
    let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0 && !text.starts_with('+')).ok_or_else(bad);
    if let Some(net) = net(text) {
        return Ok(Rule { target: Target::Net(net), port: None });
    }
    if let Some(rest) = text.strip_prefix('[') {
        let (inside, rest) = rest.split_once(']').ok_or_else(bad)?;
        let target = Target::Net(net(inside).filter(|net| matches!(net, IpNet::V6(_))).ok_or_else(bad)?);
        return match rest.strip_prefix(':') {
            Some(number) => Ok(Rule { target, port: Some(port(number)?) }),
            None if rest.is_empty() => Ok(Rule { target, port: None }),
            None => Err(bad()),
        };
    }
    let (host, port) = match text.split_once(':') {
        Some((host, number)) => (host, Some(port(number)?)),
        None => (text, None),
    };
    let target = match Host::parse(host) {
        _ if host == "public" => Target::Public,
        _ if net(host).is_some() => Target::Net(net(host).ok_or_else(bad)?),
        Ok(Host::Domain(name)) if is_name(without_dot(&name)) => Target::Name(without_dot(&name).to_owned()),
        _ => return Err(bad()),
    };
    Ok(Rule { target, port })
}

// No pattern such as *.example.org, which would match nothing.
fn is_name(name: &str) -> bool {
    let in_names = |b: u8| b.is_ascii_alphanumeric() || b"-_".contains(&b);
    name.split('.').all(|label| !label.is_empty() && label.bytes().all(in_names))
}

fn without_dot(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

/// Reason of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The destination is not listed.
    Unlisted,
    /// The address is one that only an entry of its own opens.
    Special,
}

/// The rules together.
#[derive(Debug, Clone)]
pub struct Policy {
    rules: Vec<Rule>,
}

impl Policy {
    /// By these entries; none: all public addresses.
    pub fn new(mut rules: Vec<Rule>) -> Policy {
        if rules.is_empty() {
            rules.push(Rule { target: Target::Public, port: None });
        }
        Policy { rules }
    }

    /// Whether an address of this host could be dialled at all: else its name is not even resolved.
    pub fn may_resolve(&self, host: &Host<String>, port: u16) -> bool {
        self.rules.iter().any(|rule| {
            rule.has_port(port)
                && match (&rule.target, host) {
                    (Target::Name(listed), Host::Domain(name)) => listed == without_dot(name),
                    (Target::Name(_), _) => false,
                    _ => true,
                }
        })
    }

    /// Decides on an address of this host; `own`: the machine's addresses.
    ///
    /// # Errors
    /// It is not to be dialled.
    pub fn judge(&self, host: &Host<String>, ip: IpAddr, port: u16, own: &[IpAddr]) -> Result<(), Refusal> {
        let ip = ip.to_canonical();
        let rules = || self.rules.iter().filter(|rule| rule.has_port(port));
        if rules().any(|rule| matches!(&rule.target, Target::Net(net) if net.contains(&ip))) {
            return Ok(());
        }
        if is_special(ip) || own.iter().any(|own| own.to_canonical() == ip) {
            return Err(Refusal::Special);
        }
        let listed = rules().any(|rule| match &rule.target {
            Target::Public => true,
            Target::Name(listed) => matches!(host, Host::Domain(name) if without_dot(name) == listed),
            Target::Net(_) => false,
        });
        if listed { Ok(()) } else { Err(Refusal::Unlisted) }
    }
}

fn is_special(ip: IpAddr) -> bool {
    let outside = ip.is_ipv6() && !UNICAST.is_some_and(|unicast| unicast.contains(&ip));
    outside || SPECIAL.iter().any(|net| net.contains(&ip))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn judge(rules: &[&str], host: &str, ip: &str, port: u16) -> Result<(), Refusal> {
        let policy = Policy::new(rules.iter().map(|text| rule(text).unwrap()).collect());
        let own = ["198.41.0.4".parse().unwrap()];
        policy.judge(&Host::parse(host).unwrap(), ip.parse().unwrap(), port, &own)
    }

    #[test]
    fn addresses_that_are_not_of_the_internet() {
        assert_eq!(judge(&[], "a.example", "193.0.14.129", 443), Ok(()));
        assert_eq!(judge(&[], "a.example", "2a01:4f8::1", 443), Ok(()));
        for ip in [
            "127.0.0.1",
            "127.255.0.9",
            "10.1.2.3",
            "172.31.0.1",
            "192.168.0.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "224.0.0.1",
            "255.255.255.255",
            "240.0.0.1",
            "198.41.0.4",
            "::1",
            "::",
            "fe80::1",
            "fd00::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2001:0:1::",
            "::127.0.0.1",
        ] {
            assert_eq!(judge(&[], "a.example", ip, 443), Err(Refusal::Special), "{ip}");
            assert_eq!(judge(&["a.example"], "a.example", ip, 443), Err(Refusal::Special), "{ip}");
        }
        assert_eq!(judge(&["10.0.0.0/8", "public"], "a.example", "10.1.2.3", 443), Ok(()));
        assert_eq!(judge(&["198.41.0.4"], "198.41.0.4", "198.41.0.4", 443), Ok(()));
        assert_eq!(judge(&["127.0.0.1:80"], "a.example", "::ffff:127.0.0.1", 80), Ok(()));
        assert_eq!(judge(&["127.0.0.1:80"], "a.example", "127.0.0.1", 81), Err(Refusal::Special));
    }

    #[test]
    fn lists_and_ports() {
        let public = "193.0.14.129";
        assert_eq!(judge(&["a.example:443"], "A.example.", public, 443), Ok(()));
        for (host, port) in [("b.example", 443), ("a.example", 80), (public, 443)] {
            assert_eq!(judge(&["a.example:443"], host, public, port), Err(Refusal::Unlisted), "{host} {port}");
        }
        for rules in [&[][..], &["public"], &["0.0.0.0/0"], &["a.example"]] {
            assert_eq!(judge(rules, "a.example", public, 25), Err(Refusal::Unlisted), "{rules:?}");
        }
        for rules in [["public:25"], ["a.example:25"], ["193.0.0.0/16:25"]] {
            assert_eq!(judge(&rules, "a.example", public, 25), Ok(()), "{rules:?}");
        }
        let policy = Policy::new(vec![rule("a.example:443").unwrap()]);
        assert!(policy.may_resolve(&Host::parse("a.example").unwrap(), 443));
        assert!(!policy.may_resolve(&Host::parse("b.example").unwrap(), 443));
    }

    #[test]
    fn entries() {
        for good in [
            "public",
            "public:80",
            "x.example:1",
            "10.0.0.0/8",
            "10.0.0.0/8:22",
            "192.0.2.1",
            "[::1]:1",
            "::1",
            "2001:db8::/32",
            "[2001:db8::/32]:22",
        ] {
            assert!(rule(good).is_ok(), "{good}");
        }
        for bad in
            ["", ":1", "x:", "x:0", "x:65536", "x:+1", "10.0.0.0/33", "[::1", "[::1]1", "[10.0.0.1]:1", "a b", "x/8"]
        {
            assert!(rule(bad).is_err(), "{bad}");
        }
        for unclear in ["*", "*.example.org", "a..b", "10.1.2.3/8", "[2001:db8::1/32]:22", "::ffff:10.0.0.1"] {
            assert!(rule(unclear).is_err(), "{unclear}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_an_entry_or_refused(text in "\\PC{0,40}") {
            let _ = rule(&text);
        }

        // Without an entry no address of the machine's own networks is dialled, in whatever form it comes.
        #[test]
        fn mapped_addresses_are_judged_as_what_they_are(bits in any::<u32>()) {
            let v4 = std::net::Ipv4Addr::from(bits);
            let judged = |ip: IpAddr| Policy::new(Vec::new()).judge(&Host::Domain("x".into()), ip, 443, &[]);
            prop_assert_eq!(judged(v4.into()), judged(v4.to_ipv6_mapped().into()));
            let special = v4.is_private() || v4.is_loopback() || v4.is_link_local() || v4.is_multicast() || v4.is_broadcast();
            prop_assert!(!special || judged(v4.into()).is_err());
        }
    }
}
