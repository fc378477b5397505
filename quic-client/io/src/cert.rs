// SPDX-License-Identifier: Apache-2.0
//! The server's certificate: given as files, kept in a state folder, or in memory only.
//!
//! The key is RSA-2048, because all its signatures have the same length. The length of ECDSA signatures varies, and in the
//! lab one more byte in a packet makes a different run.

use crate::fault::{Fault, IO, USAGE};
use crate::files;
use boring::asn1::Asn1Time;
use boring::bn::{BigNum, MsbOption};
use boring::hash::MessageDigest;
use boring::pkey::{PKey, Private};
use boring::rsa::Rsa;
use boring::x509::extension::{BasicConstraints, SubjectAlternativeName};
use boring::x509::{X509, X509NameBuilder};
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// A private key and its chain of certificates.
pub struct Identity {
    /// The key.
    pub key: PKey<Private>,
    /// The leaf first.
    pub chain: Vec<X509>,
}

impl Identity {
    /// Those of these host names and addresses that the certificate does not cover. A wildcard certificate covers any
    /// host of its domain.
    pub fn lacks(&self, names: &[String]) -> Vec<String> {
        let alternatives: Vec<_> =
            self.chain.first().and_then(|leaf| leaf.subject_alt_names()).into_iter().flatten().collect();
        let has = |name: &String| {
            let ip = name.parse::<IpAddr>().map(|ip| match ip {
                IpAddr::V4(ip) => ip.octets().to_vec(),
                IpAddr::V6(ip) => ip.octets().to_vec(),
            });
            alternatives.iter().any(|one| match &ip {
                Ok(ip) => one.ipaddress() == Some(ip),
                Err(_) => one.dnsname().is_some_and(|dns| is_for(dns, name)),
            })
        };
        names.iter().filter(|name| !has(name)).cloned().collect()
    }
}

/// Whether a name of a certificate is for this host (RFC 9525 6.3).
fn is_for(dns: &str, host: &str) -> bool {
    let rest = |name: &str| name.split_once('.').map(|(_, rest)| rest.to_ascii_lowercase());
    dns.eq_ignore_ascii_case(host)
        || dns.strip_prefix("*.").is_some_and(|domain| rest(host) == Some(domain.to_ascii_lowercase()))
}

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertError {
    /// A file can't be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// A file holds something else.
    #[error("{path}: expected {expected} in PEM form")]
    Pem {
        /// The file.
        path: PathBuf,
        /// Expected content.
        expected: &'static str,
    },
    /// Key and certificate don't belong together.
    #[error("{key} is not the key of the certificate in {cert}")]
    Mismatch {
        /// The key's file.
        key: PathBuf,
        /// The certificate's file.
        cert: PathBuf,
    },
    /// The TLS library failed to make a certificate.
    #[error("cannot make a certificate: {0}")]
    Make(#[from] boring::error::ErrorStack),
}

fn io_at(path: &Path) -> impl FnOnce(io::Error) -> CertError + '_ {
    |source| CertError::Io { path: path.to_owned(), source }
}

/// Reads certificate (chain) and key from files, which may be one and the same.
pub fn load(cert: &Path, key: &Path) -> Result<Identity, CertError> {
    let pem = |path: &Path, expected| CertError::Pem { path: path.to_owned(), expected };
    let chain = X509::stack_from_pem(&fs::read(cert).map_err(io_at(cert))?).unwrap_or_default();
    let leaf = chain.first().ok_or_else(|| pem(cert, "a certificate"))?;
    let private = PKey::private_key_from_pem(&fs::read(key).map_err(io_at(key))?)
        .map_err(|_| pem(key, "an unencrypted private key"))?;
    if !leaf.public_key()?.public_eq(&private) {
        return Err(CertError::Mismatch { key: key.to_owned(), cert: cert.to_owned() });
    }
    Ok(Identity { key: private, chain })
}

/// Makes a self-signed certificate for `names` (host names or addresses), valid from yesterday for ten years.
pub fn make(names: &[String]) -> Result<Identity, CertError> {
    let key = PKey::from_rsa(Rsa::generate(2048)?)?;
    let mut subject = X509NameBuilder::new()?;
    subject.append_entry_by_text("CN", "weir-server")?;
    let subject = subject.build();
    let mut serial = BigNum::new()?;
    serial.rand(127, MsbOption::ONE, false)?;
    let mut b = X509::builder()?;
    b.set_version(2)?;
    b.set_serial_number(&*serial.to_asn1_integer()?)?;
    b.set_subject_name(&subject)?;
    b.set_issuer_name(&subject)?;
    b.set_pubkey(&key)?;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs()) as i64;
    const DAY_S: i64 = 86_400;
    b.set_not_before(&*Asn1Time::from_unix(now - DAY_S)?)?;
    b.set_not_after(&*Asn1Time::from_unix(now + 3652 * DAY_S)?)?;
    b.append_extension(&*BasicConstraints::new().critical().ca().build()?)?;
    let mut san = SubjectAlternativeName::new();
    for name in names {
        match name.parse::<IpAddr>() {
            Ok(ip) => san.ip(&ip.to_string()),
            Err(_) => san.dns(name),
        };
    }
    let san = san.build(&b.x509v3_context(None, None))?;
    b.append_extension(&san)?;
    b.sign(&key, MessageDigest::sha256())?;
    Ok(Identity { key, chain: vec![b.build()] })
}

/// File in the state folder that holds key and certificate: one file, so that both exist or neither.
pub const STATE_FILE: &str = "weir-server.pem";

/// File beside it with the certificate alone, for those who are to trust it: the other one's key lets its holder pass for
/// any server to them.
pub const CA_FILE: &str = "weir-server-ca.pem";

/// The certificate kept in `dir`, made on first use. If several processes start at once, one makes it and the
/// others use it.
pub fn load_or_make(dir: &Path, names: &[String]) -> Result<Identity, CertError> {
    let path = dir.join(STATE_FILE);
    if !path.exists() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(io_at(dir))?;
    }
    files::expect_private_folder(dir).map_err(io_at(dir))?;
    if !path.exists() {
        let identity = make(names)?;
        let (file, part) = files::temporary_beside(&path, 0o600).map_err(io_at(&path))?;
        let written = write_pem(file, &part, &identity).and_then(|()| match fs::hard_link(&part, &path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other.map_err(io_at(&path)),
        });
        let _ = fs::remove_file(&part);
        written?;
    }
    files::expect_secret(&path, files::READ_BY_OTHERS).map_err(io_at(&path))?;
    let identity = load(&path, &path)?;
    // One that an earlier version made gets its file too; a folder that can't be written to is as good as before.
    let _ = write_ca(dir, &identity);
    Ok(identity)
}

/// Writes the certificate alone, unless it is there.
fn write_ca(dir: &Path, identity: &Identity) -> Result<(), CertError> {
    let path = dir.join(CA_FILE);
    let mut pem = Vec::new();
    for cert in &identity.chain {
        pem.extend(cert.to_pem()?);
    }
    if fs::read(&path).is_ok_and(|there| there == pem) {
        return Ok(());
    }
    files::replace(&path, &pem).map_err(io_at(&path))
}

/// The file to give to those who are to trust a certificate that was made and is kept, if there is one.
pub fn ca_file(choice: &Choice) -> Option<PathBuf> {
    if choice.given.is_some() || choice.ephemeral {
        return None;
    }
    let dir = choice.state_dir.clone().or_else(|| state_dir().ok())?;
    Some(dir.join(CA_FILE)).filter(|path| path.exists())
}

/// Choice of a server's certificate.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// Files with its certificate chain and its key.
    pub given: Option<(PathBuf, PathBuf)>,
    /// One for this run only.
    pub ephemeral: bool,
    /// Where one is kept that is made on first use; `None`: the user's own folder for state.
    pub state_dir: Option<PathBuf>,
    /// Names and addresses for one that is made, besides localhost, 127.0.0.1 and ::1.
    pub names: Vec<String>,
}

/// The folder of the user of Weir's files.
///
/// # Errors
/// There is none.
pub fn state_dir() -> Result<PathBuf, Fault> {
    // XDG Base Directory Specification: relative values are to be ignored.
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|h| h.join(".local/state")))
        .map(|d| d.join("weir"))
        .ok_or_else(|| {
            let text = "no folder for the certificate: set HOME or XDG_STATE_HOME, or give --state-dir, --ephemeral, or \
                        --cert and --key";
            Fault::new(USAGE, text)
        })
}

/// The certificate and key: given, made for this run, or made once and kept.
///
/// # Errors
/// A file that can't be used, or no folder to keep it in.
pub fn identity(choice: &Choice) -> Result<Identity, Fault> {
    let fault = |e: CertError| Fault::new(IO, e.to_string());
    if let Some((cert, key)) = &choice.given {
        files::expect_secret(key, files::WRITTEN_BY_OTHERS).map_err(|e| fault(io_at(key)(e)))?;
        return load(cert, key).map_err(fault);
    }
    let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(String::from).to_vec();
    names.extend(choice.names.iter().cloned());
    names.dedup();
    if choice.ephemeral {
        return make(&names).map_err(fault);
    }
    let dir = choice.state_dir.clone().map_or_else(state_dir, Ok)?;
    load_or_make(&dir, &names).map_err(fault)
}

fn write_pem(mut file: File, path: &Path, identity: &Identity) -> Result<(), CertError> {
    let mut pem = identity.key.private_key_to_pem_pkcs8()?;
    for cert in &identity.chain {
        pem.extend(cert.to_pem()?);
    }
    file.write_all(&pem).and_then(|()| file.sync_all()).map_err(io_at(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        ["localhost", "127.0.0.1", "::1"].map(String::from).to_vec()
    }

    #[test]
    fn made_once_then_kept() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("a/b");
        let first = load_or_make(&state, &names()).unwrap();
        let second = load_or_make(&state, &names()).unwrap();
        assert_eq!(first.chain[0].to_der().unwrap(), second.chain[0].to_der().unwrap());
        let mut left: Vec<_> = fs::read_dir(&state).unwrap().map(|e| e.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, [CA_FILE, STATE_FILE]);
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(state.join(STATE_FILE)).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(first.chain[0].subject_alt_names().unwrap().len() == 3);
    }

    #[test]
    fn what_is_handed_out_has_no_key_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let choice = Choice { state_dir: Some(dir.path().to_owned()), ..Choice::default() };
        assert_eq!(ca_file(&choice), None);
        let made = identity(&choice).unwrap();
        let file = ca_file(&choice).unwrap();
        let text = fs::read_to_string(&file).unwrap();
        // Not KEY alone: of 250 certificates the base64 of one has it.
        assert!(!text.contains("KEY-----"), "{text}");
        assert_eq!(X509::from_pem(text.as_bytes()).unwrap().to_der().unwrap(), made.chain[0].to_der().unwrap());
        // It is that of the certificate, also if that was made by an earlier version, or anew.
        fs::remove_file(&file).unwrap();
        identity(&choice).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
        fs::remove_file(dir.path().join(STATE_FILE)).unwrap();
        identity(&choice).unwrap();
        assert_ne!(fs::read_to_string(&file).unwrap(), text);
        assert_eq!(ca_file(&Choice { ephemeral: true, ..choice }), None);
    }

    #[test]
    fn a_key_that_others_may_read_or_write_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let choice = Choice { state_dir: Some(dir.path().to_owned()), ..Choice::default() };
        identity(&choice).unwrap();
        let key = dir.path().join(STATE_FILE);
        let given = Choice { given: Some((key.clone(), key.clone())), ..Choice::default() };
        for (bits, kept, by_option) in [(0o600, true, true), (0o640, false, true), (0o666, false, false)] {
            mode(&key, bits);
            assert_eq!((identity(&choice).is_ok(), identity(&given).is_ok()), (kept, by_option), "{bits:o}");
        }
        mode(&key, 0o600);
        mode(dir.path(), 0o777);
        assert!(identity(&choice).is_err());
        mode(dir.path(), 0o755);
        assert!(identity(&choice).is_ok());
        if nix::unistd::geteuid().is_root() {
            std::os::unix::fs::chown(dir.path(), Some(65_534), None).unwrap();
            assert!(identity(&choice).is_err());
        }
    }

    #[test]
    fn what_a_certificate_is_not_for_is_found() {
        let of = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let made = make(&of(&["localhost", "192.0.2.7", "2001:db8::7", "*.example.org"])).unwrap();
        let asked = ["LOCALHOST", "192.0.2.7", "2001:DB8::7", "a.example.org", "A.Example.Org"];
        assert_eq!(made.lacks(&of(&asked)), of(&[]));
        let others = ["192.0.2.8", "2001:db8::8", "example.org", "a.b.example.org", "xlocalhost"];
        assert_eq!(made.lacks(&of(&others)), of(&others));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.pem");
        assert!(load(&path, &path).err().unwrap().to_string().contains("x.pem: No such file"));
        fs::write(&path, "nonsense").unwrap();
        assert!(load(&path, &path).err().unwrap().to_string().contains("expected a certificate"));
        let (a, b) = (dir.path().join("a.pem"), dir.path().join("b.pem"));
        for path in [&a, &b] {
            write_pem(File::create(path).unwrap(), path, &make(&names()).unwrap()).unwrap();
        }
        assert!(matches!(load(&a, &b), Err(CertError::Mismatch { .. })));
        assert!(load(&a, &path).err().unwrap().to_string().contains("private key"));
        assert!(load_or_make(&path.join("below-a-file"), &names()).is_err());
    }
}
