// SPDX-License-Identifier: Apache-2.0
//! The keys of session tickets. Servers that have the same secret accept each other's tickets, so a subscriber that comes from
//! another edge goes on without a whole handshake. The keys follow from the secret and the time: each server draws the
//! next one by itself when its time has come.

use boring::error::ErrorStack;
use boring::hash::{MessageDigest, hmac_sha256};
use boring::ssl::{SslContextBuilder, TicketKeyCallbackResult};
use boring::symm::Cipher;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use weir_io::fault::{Fault, IO};
use weir_io::random;

use crate::objects::object::manifest::{from_hex, hex};

/// A key makes tickets for so long, and is good for as long again.
const PERIOD_S: u64 = 6 * 3600;
/// Permissions that nobody but the owner may have on the file.
const OTHERS: u32 = 0o077;

/// Secret from which all keys follow.
#[derive(Clone, Copy)]
pub struct TicketSecret([u8; 32]);

struct Keys {
    name: [u8; 16],
    cipher: [u8; 16],
    mac: [u8; 32],
}

impl TicketSecret {
    /// For this process alone.
    ///
    /// # Errors
    /// There are no random numbers.
    pub fn draw() -> Result<TicketSecret, Fault> {
        random::bytes().map(TicketSecret)
    }

    /// From a file, which is made if there is none.
    ///
    /// # Errors
    /// It can't be read or made, others may read it, or it holds something else.
    pub fn kept(path: &Path) -> Result<TicketSecret, Fault> {
        let at = |e: io::Error| Fault::io(format!("--ticket-keys {}", path.display()))(e);
        let wrong = |why: &str| Fault::new(IO, format!("--ticket-keys {}: {why}", path.display()));
        if !path.exists() {
            let new = path.with_extension(format!("new-{}", std::process::id()));
            let text = hex(&random::bytes::<32>()?) + "\n";
            let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new).and_then(|mut file| {
                file.write_all(text.as_bytes())?;
                file.sync_all()?;
                // Another server that starts now takes what the first one made.
                match fs::hard_link(&new, path) {
                    Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                    other => other,
                }
            });
            let _ = fs::remove_file(&new);
            made.map_err(at)?;
        }
        let about = fs::metadata(path).map_err(at)?;
        if !about.is_file() || about.len() > 1024 {
            return Err(wrong("expected a file with 64 hexadecimal digits, as weir-icn makes it"));
        }
        if about.mode() & OTHERS != 0 {
            return Err(wrong("others may read or write it; take that from them: chmod 600"));
        }
        let text = fs::read(path).map_err(at)?;
        TicketSecret::parse(&text).ok_or_else(|| wrong("expected 64 hexadecimal digits, as weir-icn makes it"))
    }

    /// From the content of a file.
    fn parse(text: &[u8]) -> Option<TicketSecret> {
        from_hex(std::str::from_utf8(text).ok()?.trim_end()).map(TicketSecret)
    }

    fn keys(&self, period: u64) -> Result<Keys, ErrorStack> {
        let part = |label: &str| hmac_sha256(&self.0, &[label.as_bytes(), &period.to_be_bytes()].concat());
        let (mut name, mut cipher) = ([0; 16], [0; 16]);
        name.copy_from_slice(&part("weir icn ticket name")?[..16]);
        cipher.copy_from_slice(&part("weir icn ticket key")?[..16]);
        Ok(Keys { name, cipher, mac: part("weir icn ticket mac")? })
    }

    /// The key of a ticket with this name, and whether it is to be replaced by one of a later key.
    fn find(&self, name: &[u8; 16], now_s: u64) -> Result<Option<(Keys, bool)>, ErrorStack> {
        let period = now_s / PERIOD_S;
        // Clocks of servers differ a little.
        for (period, old) in [(period, false), (period.wrapping_sub(1), true), (period + 1, false)] {
            let keys = self.keys(period)?;
            if keys.name == *name {
                return Ok(Some((keys, old)));
            }
        }
        Ok(None)
    }

    /// Makes a server's tickets with these keys.
    pub fn apply(self, ctx: &mut SslContextBuilder) {
        // SAFETY: in encryption mode the callback fills in the key's name and the IV and initialises both contexts; else it
        // initialises both with the key of that name, or refuses the ticket.
        unsafe {
            ctx.set_ticket_key_callback(move |_, name, iv, cipher, mac, encrypt| {
                let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
                let aes = Cipher::aes_128_cbc();
                let sha = MessageDigest::sha256();
                if encrypt {
                    let Ok(keys) = self.keys(now_s / PERIOD_S) else { return TicketKeyCallbackResult::Error };
                    *name = keys.name;
                    let made = boring::rand::rand_bytes(iv)
                        .and_then(|()| cipher.init_encrypt(&aes, &keys.cipher, iv))
                        .and_then(|()| mac.init(&keys.mac, &sha));
                    return made.map_or(TicketKeyCallbackResult::Error, |()| TicketKeyCallbackResult::Success);
                }
                let Ok(Some((keys, old))) = self.find(name, now_s) else { return TicketKeyCallbackResult::Noop };
                let ready = cipher.init_decrypt(&aes, &keys.cipher, iv).and_then(|()| mac.init(&keys.mac, &sha));
                match ready {
                    Err(_) => TicketKeyCallbackResult::Error,
                    Ok(()) if old => TicketKeyCallbackResult::DecryptSuccessRenew,
                    Ok(()) => TicketKeyCallbackResult::Success,
                }
            });
        }
    }
}

/// Any bytes as the file of the secret, as the name of a ticket's key and as the time that it comes at.
pub(crate) fn fuzz(data: &[u8]) {
    if let Some(secret) = TicketSecret::parse(data) {
        let text = String::from_utf8_lossy(data);
        assert_eq!(hex(&secret.0), text.trim_end().to_ascii_lowercase());
    }
    let Some((head, rest)) = data.split_first_chunk::<32>() else { return };
    let Some((name, rest)) = rest.split_first_chunk::<16>() else { return };
    let now_s = u64::from_le_bytes(rest.first_chunk().copied().unwrap_or_default());
    let secret = TicketSecret(*head);
    let found = |name, now_s| secret.find(name, now_s).expect("the TLS library").map(|(_, old)| old);
    assert_eq!(found(name, now_s), None, "a key out of nowhere");
    let made = secret.keys(now_s / PERIOD_S).expect("the TLS library").name;
    assert_eq!(found(&made, now_s), Some(false));
    if let Some(later_s) = now_s.checked_add(PERIOD_S) {
        assert_eq!(found(&made, later_s), Some(true));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_is_good_in_its_period_and_the_next() {
        let (secret, other) = (TicketSecret([1; 32]), TicketSecret([2; 32]));
        let at = 1000 * PERIOD_S;
        let name = secret.keys(at / PERIOD_S).unwrap().name;
        let found = |s: &TicketSecret, now_s| s.find(&name, now_s).unwrap().map(|(_, old)| old);
        assert_eq!((found(&secret, at), found(&secret, at + PERIOD_S - 1)), (Some(false), Some(false)));
        assert_eq!(found(&secret, at + PERIOD_S), Some(true));
        assert_eq!((found(&secret, at + 2 * PERIOD_S), found(&other, at)), (None, None));
        let (now, next) = (secret.keys(1000).unwrap(), secret.keys(1001).unwrap());
        assert!(now.cipher != next.cipher && now.mac != next.mac);
    }

    #[test]
    fn made_once_for_the_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keys");
        let first = TicketSecret::kept(&path).unwrap();
        assert_eq!(TicketSecret::kept(&path).unwrap().0, first.0);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(TicketSecret::kept(&path).err().unwrap().text.contains("chmod 600"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "nonsense").unwrap();
        assert!(TicketSecret::kept(&path).err().unwrap().text.contains("64 hexadecimal digits"));
        assert!(TicketSecret::kept(dir.path()).is_err());
        assert!(TicketSecret::kept(&path.join("below")).is_err());
    }
}
