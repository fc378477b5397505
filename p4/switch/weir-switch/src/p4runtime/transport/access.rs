// SPDX-License-Identifier: Apache-2.0
//! Identity of callers, and their rights. Rights go by the subject of the certificate that a client shows in the TLS
//! handshake. This module is pure: [`super::admission`] asks before a byte of a request is read.
use super::accept::{ConnectionSlot, Usage};
use crate::p4runtime::audit::Entry;
use crate::p4runtime::messages::error::{Res, denied};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use tonic::codegen::http::Extensions;
use tonic::transport::server::{TcpConnectInfo, TlsConnectInfo};
use x509_parser::oid_registry::{Oid, asn1_rs::oid};
use x509_parser::prelude::{FromDer, X509Certificate};

/// Right of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Right {
    /// Read, GetForwardingPipelineConfig, Capabilities, and a stream that reports the primary.
    Read,
    /// Write, packet-out, and to be primary.
    Write,
    /// SetForwardingPipelineConfig, and to be primary. It can do all to packets: a program is what it likes.
    Pipeline,
}

const ALL: [Right; 3] = [Right::Read, Right::Write, Right::Pipeline];

impl Right {
    fn name(self) -> &'static str {
        match self {
            Right::Read => "read",
            Right::Write => "write",
            Right::Pipeline => "pipeline",
        }
    }
}

/// A call's name, and the right that it needs before anything in it is looked at. StreamChannel needs `read`; messages
/// on it may need more. A method's name is the client's word, of any length: only names that are known come out.
pub fn call(method: &str) -> (&'static str, Right) {
    match method {
        "Write" => ("Write", Right::Write),
        "SetForwardingPipelineConfig" => ("SetForwardingPipelineConfig", Right::Pipeline),
        "Read" => ("Read", Right::Read),
        "GetForwardingPipelineConfig" => ("GetForwardingPipelineConfig", Right::Read),
        "Capabilities" => ("Capabilities", Right::Read),
        "StreamChannel" => ("StreamChannel", Right::Read),
        _ => ("another call", Right::Read),
    }
}

/// Attributes of a subject that a rule may name (RFC 4519 2), by their object identifiers.
static ATTRIBUTES: [(&str, Oid<'static>); 9] = [
    ("CN", oid!(2.5.4.3)),
    ("serialNumber", oid!(2.5.4.5)),
    ("C", oid!(2.5.4.6)),
    ("L", oid!(2.5.4.7)),
    ("ST", oid!(2.5.4.8)),
    ("O", oid!(2.5.4.10)),
    ("OU", oid!(2.5.4.11)),
    ("UID", oid!(0.9.2342.19200300.100.1.1)),
    ("DC", oid!(0.9.2342.19200300.100.1.25)),
];

/// A subject's attributes in the order of the certificate. Those of other kinds are left out: no rule can name them. One
/// that a rule can name must be text that can be compared, or a rule that is to fit it would be passed over.
fn subject(certificate: &[u8]) -> Res<Vec<(&'static str, String)>> {
    let wrong = |e: &dyn std::fmt::Display| denied(format!("the client's certificate can't be read: {e}"));
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|e| wrong(&e))?;
    let mut found = Vec::new();
    for attribute in parsed.subject().iter_attributes() {
        if let Some((name, _)) = ATTRIBUTES.iter().find(|(_, oid)| oid == attribute.attr_type()) {
            let text = attribute.as_str().map_err(|e| wrong(&format!("{name}: {e}")))?;
            found.push((*name, text.to_string()));
        }
    }
    Ok(found)
}

/// Attributes that identify a client: of several, a rule could not know which one the authority meant.
const IDENTITIES: [&str; 3] = ["CN", "UID", "serialNumber"];

/// Checks that rights can go by a subject: each attribute that identifies the client occurs once at most.
fn expect_one_identity(subject: &[(&'static str, String)]) -> Res<()> {
    let count = |name: &str| subject.iter().filter(|(n, _)| *n == name).count();
    match IDENTITIES.into_iter().find(|name| count(name) > 1) {
        Some(name) => Err(denied(format!(
            "the client's certificate has {} {name} in its subject ({}); --grpc-rights takes one with one at most",
            count(name),
            shortened(subject)
        ))),
        None => Ok(()),
    }
}

/// A subject as one text, in which no value can be mistaken for another attribute (RFC 4514 2.4).
fn written(subject: &[(&'static str, String)]) -> String {
    let mut text = String::new();
    for (name, value) in subject {
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(name);
        text.push('=');
        for c in value.chars() {
            match c {
                ',' | '+' | '"' | '\\' | '<' | '>' | ';' | '=' => text.extend(['\\', c]),
                c if c.is_control() => {
                    let bytes = c.to_string().into_bytes();
                    text.extend(bytes.iter().map(|byte| format!("\\{byte:02X}")));
                }
                c => text.push(c),
            }
        }
    }
    text
}

/// Rights of clients whose subject has all of these attributes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    subject: BTreeMap<String, String>,
    rights: Vec<Right>,
}

/// Rights by client: the first rule that fits decides, and a client that fits none has no rights.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Access {
    client: Vec<Rule>,
}

impl Access {
    /// The rules of a file; `from` names it in messages.
    ///
    /// # Errors
    /// Their place and fault.
    pub fn read(from: &str, text: Vec<u8>) -> Result<Access, String> {
        let text = String::from_utf8(text).map_err(|e| format!("{from}: it is no UTF-8 text: {e}"))?;
        Access::parse(&text).map_err(|e| format!("{from}: {e}"))
    }

    /// Reads rules: `[[client]]` with `subject = { CN = "..." }` and `rights = ["read", ...]`.
    ///
    /// # Errors
    /// Their place and fault.
    fn parse(text: &str) -> Result<Access, String> {
        let access: Access = toml::from_str(text).map_err(|e| e.to_string().trim_end().to_string())?;
        for (i, rule) in access.client.iter().enumerate() {
            let known = |name: &String| ATTRIBUTES.iter().any(|(known, _)| known == name);
            if let Some(name) = rule.subject.keys().find(|name| !known(name)) {
                let all: Vec<&str> = ATTRIBUTES.iter().map(|(name, _)| *name).collect();
                return Err(format!(
                    "client {}: subject has no attribute {name}; it may have {}",
                    i + 1,
                    all.join(", ")
                ));
            }
            if let Some(earlier) = access.client[..i].iter().position(|e| includes(&rule.subject, &e.subject)) {
                return Err(format!(
                    "client {}: it is never reached, client {} has all whom it fits",
                    i + 1,
                    earlier + 1
                ));
            }
        }
        if access.client.is_empty() {
            return Err("there is no [[client]] in it: nobody could do anything".into());
        }
        Ok(access)
    }

    fn rights(&self, subject: &[(&str, String)]) -> Vec<Right> {
        let has = |(name, value): (&String, &String)| subject.iter().any(|(n, v)| n == name && v == value);
        let rule = self.client.iter().find(|rule| rule.subject.iter().all(has));
        rule.map_or_else(Vec::new, |rule| rule.rights.clone())
    }
}

fn includes(all: &BTreeMap<String, String>, some: &BTreeMap<String, String>) -> bool {
    some.iter().all(|(name, value)| all.get(name) == Some(value))
}

/// Sender of a request.
#[derive(Clone, Debug)]
pub struct Caller(Arc<Who>);

#[derive(Debug)]
struct Who {
    subject: String,
    from: Option<SocketAddr>,
    rights: Vec<Right>,
}

/// tonic's information on a connection here.
type Connection = ConnectionSlot<TcpConnectInfo>;

fn connection(extensions: &Extensions) -> Option<&Connection> {
    let tls = extensions.get::<TlsConnectInfo<Connection>>();
    tls.map(TlsConnectInfo::get_ref).or_else(|| extensions.get::<Connection>())
}

/// Usage of the request's connection.
pub fn usage(extensions: &Extensions) -> Option<&Arc<Usage>> {
    connection(extensions).map(|c| &c.usage)
}

/// A subject longer than that is cut: it is in messages and in lines of the audit.
const SUBJECT_CHARS: usize = 200;

fn shortened(subject: &[(&'static str, String)]) -> String {
    written(subject).chars().take(SUBJECT_CHARS).collect()
}

impl Caller {
    /// Identifies the caller of a request. Without `access` all who could connect may do all.
    ///
    /// # Errors
    /// PERMISSION_DENIED for a certificate that can't be read or has several identities, if rights go by it.
    pub fn of(extensions: &Extensions, access: Option<&Access>) -> Res<Caller> {
        let tls = extensions.get::<TlsConnectInfo<Connection>>();
        let from = connection(extensions).and_then(|c| c.inner.remote_addr());
        let certificates = tls.and_then(TlsConnectInfo::peer_certs);
        let found = match certificates.as_ref().and_then(|list| list.first()) {
            // Where no right hangs on it, it is only a name in the audit.
            Some(own) => subject(own).or_else(|e| if access.is_some() { Err(e) } else { Ok(Vec::new()) })?,
            None => Vec::new(),
        };
        let rights = match access {
            Some(access) => {
                expect_one_identity(&found)?;
                access.rights(&found)
            }
            None => ALL.to_vec(),
        };
        Ok(Caller(Arc::new(Who { subject: shortened(&found), from, rights })))
    }

    /// The caller that admission found, or nobody.
    pub fn found(extensions: &tonic::Extensions) -> Caller {
        let nobody = || Caller(Arc::new(Who { subject: String::new(), from: None, rights: Vec::new() }));
        extensions.get::<Caller>().cloned().unwrap_or_else(nobody)
    }

    /// The subject of its certificate, as `CN=...,O=...`; empty without one.
    pub fn subject(&self) -> &str {
        &self.0.subject
    }

    /// Its address and port.
    pub fn from(&self) -> Option<SocketAddr> {
        self.0.from
    }

    /// A line of the audit about its request.
    pub fn entry(&self, call: &'static str) -> Entry {
        let from = self.from().map_or_else(String::new, |from| from.to_string());
        Entry { who: self.subject().into(), from, call, ..Default::default() }
    }

    /// Rejects requests that need a right that the caller has not.
    ///
    /// # Errors
    /// PERMISSION_DENIED with the needed rights and those there are.
    pub fn may(&self, what: &str, any_of: &[Right]) -> Res<()> {
        if any_of.iter().any(|right| self.0.rights.contains(right)) {
            return Ok(());
        }
        let list = |rights: &[Right], between: &str| {
            let names: Vec<String> = rights.iter().map(|r| format!("`{}`", r.name())).collect();
            names.join(between)
        };
        let has = if self.0.rights.is_empty() { "none".to_string() } else { list(&self.0.rights, ", ") };
        let subject = if self.0.subject.is_empty() { "without a name" } else { &self.0.subject };
        let needed = list(any_of, " or ");
        Err(denied(format!("{what} needs the right {needed}; this client ({subject}) has {has} (--grpc-rights)")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = r#"
        [[client]]
        subject = { CN = "tuner", O = "Example" }
        rights = ["read", "write"]
        [[client]]
        subject = { O = "Example" }
        rights = ["read"]
    "#;

    fn rights(rules: &str, subject: &[(&'static str, &str)]) -> Vec<Right> {
        let subject: Vec<_> = subject.iter().map(|(n, v)| (*n, (*v).to_string())).collect();
        Access::parse(rules).unwrap().rights(&subject)
    }

    fn caller(subject: &str, rights: &[Right]) -> Caller {
        Caller(Arc::new(Who { subject: subject.into(), from: None, rights: rights.to_vec() }))
    }

    #[test]
    fn the_first_rule_with_all_its_attributes_in_the_subject_decides() {
        assert_eq!(rights(RULES, &[("O", "Example"), ("CN", "tuner")]), [Right::Read, Right::Write]);
        assert_eq!(rights(RULES, &[("O", "Example"), ("CN", "tuner2")]), [Right::Read]);
        assert_eq!(rights(RULES, &[("CN", "tuner")]), []);
        assert_eq!(rights(RULES, &[]), []);
        // A name with a comma in it is no second attribute.
        assert_eq!(rights(RULES, &[("CN", "x,O=Example")]), []);
        let anybody = "[[client]]\nsubject = {}\nrights = [\"pipeline\"]";
        assert_eq!(rights(anybody, &[("CN", "x")]), [Right::Pipeline]);
    }

    #[test]
    fn a_subject_with_several_identities_has_no_rights() {
        let of = |subject: &[(&'static str, &str)]| {
            let subject: Vec<_> = subject.iter().map(|(n, v)| (*n, (*v).to_string())).collect();
            expect_one_identity(&subject)
        };
        for name in IDENTITIES {
            let e = of(&[("O", "Example"), (name, "watcher"), (name, "owner")]).unwrap_err();
            assert_eq!(e.code, tonic::Code::PermissionDenied);
            assert!(e.message.contains(&format!("2 {name} ")), "{}", e.message);
        }
        // Groups may be several: a rule fits any.
        assert_eq!(of(&[("OU", "a"), ("OU", "b"), ("DC", "x"), ("DC", "y"), ("CN", "owner")]), Ok(()));
        assert_eq!(of(&[]), Ok(()));
    }

    #[test]
    fn wrong_rules_are_named() {
        let rule = |subject: &str, rights: &str| format!("[[client]]\nsubject = {subject}\nrights = {rights}\n");
        let twice = rule("{ O = \"a\" }", "[]") + &rule("{ O = \"a\", CN = \"b\" }", "[\"read\"]");
        for (text, want) in [
            ("client = []".to_string(), "there is no [[client]] in it"),
            (rule("{ cn = \"a\" }", "[]"), "client 1: subject has no attribute cn; it may have CN, serialNumber"),
            (rule("{}", "[\"reed\"]"), "unknown variant `reed`, expected one of `read`, `write`, `pipeline`"),
            (rule("\"CN=a\"", "[]"), "expected a map"),
            (rule("{}", "[]") + "right = 1", "unknown field `right`"),
            (twice, "client 2: it is never reached, client 1 has all whom it fits"),
        ] {
            let e = Access::parse(&text).unwrap_err();
            assert!(e.contains(want), "{e}");
        }
        let e = Access::read("--grpc-rights r.toml", vec![0xff]).unwrap_err();
        assert!(e.starts_with("--grpc-rights r.toml: it is no UTF-8 text"), "{e}");
    }

    #[test]
    fn a_refusal_says_what_is_needed_and_what_there_is() {
        let watcher = caller("CN=watch", &[Right::Read]);
        assert_eq!(watcher.may("Read", &[Right::Read]), Ok(()));
        let e = watcher.may("Write", &[Right::Write]).unwrap_err();
        assert_eq!(e.code, tonic::Code::PermissionDenied);
        assert_eq!(e.message, "Write needs the right `write`; this client (CN=watch) has `read` (--grpc-rights)");
        let e = caller("", &[]).may("to be primary", &[Right::Write, Right::Pipeline]).unwrap_err();
        assert!(
            e.message.ends_with(
                "needs the right `write` or `pipeline`; this client (without a name) has none (--grpc-rights)"
            )
        );
    }

    #[test]
    fn a_certificate_s_subject_is_read_and_garbage_is_none() {
        let mut params = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::OrganizationName, "Example");
        params.distinguished_name.push(rcgen::DnType::CommonName, "tuner,O=Other");
        let certificate = params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
        let found = subject(certificate.der()).unwrap();
        assert_eq!(found, [("O", "Example".to_string()), ("CN", "tuner,O=Other".to_string())]);
        assert_eq!(written(&found), r"O=Example,CN=tuner\,O\=Other");
        assert_eq!(written(&[("CN", "a\nb\u{85}".into())]), r"CN=a\0Ab\C2\85");
        // The same name in another kind of text, as a rule for it could not see.
        let mut params = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        let wide = rcgen::string::BmpString::try_from("tuner").unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, rcgen::DnValue::BmpString(wide));
        let other = params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
        let refused = subject(other.der()).unwrap_err();
        assert!(refused.message.starts_with("the client's certificate can't be read: CN: "), "{}", refused.message);
        for cut in 0..certificate.der().len() {
            assert!(subject(&certificate.der()[..cut]).is_err());
        }
    }
}
