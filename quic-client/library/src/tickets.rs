// SPDX-License-Identifier: Apache-2.0
//! Session tickets (RFC 8446 4.6.1): a later connection to the server, over any network, needs no certificate and may
//! carry requests in its first packets.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, Read};
use std::path::PathBuf;
use weir_io::files;

/// Largest ticket that is kept, in bytes, with the server's transport parameters.
const MOST_BYTES: u64 = 64 * 1024;
/// Tickets in memory at most.
const MOST_TICKETS: usize = 100;

/// Store of session tickets. It is called on the client's thread.
///
/// A ticket is taken once: a second use would link both connections to one client (RFC 8446 C.4). Keys are opaque: a
/// server with its port, and the rules by which its certificate was checked.
pub trait TicketStore: Send {
    /// Takes out the ticket for this key.
    fn take(&mut self, key: &str) -> Option<Vec<u8>>;

    /// Keeps a ticket, in place of an older one for this key.
    fn put(&mut self, key: &str, ticket: &[u8]);
}

/// The latest 100 tickets, in memory.
#[derive(Debug, Default)]
pub struct MemoryTickets {
    tickets: VecDeque<(String, Vec<u8>)>,
}

impl TicketStore for MemoryTickets {
    fn take(&mut self, key: &str) -> Option<Vec<u8>> {
        let at = self.tickets.iter().position(|(k, _)| k == key)?;
        self.tickets.remove(at).map(|(_, ticket)| ticket)
    }

    fn put(&mut self, key: &str, ticket: &[u8]) {
        self.tickets.retain(|(k, _)| k != key);
        if self.tickets.len() == MOST_TICKETS {
            self.tickets.pop_front();
        }
        self.tickets.push_back((key.to_owned(), ticket.to_vec()));
    }
}

/// Tickets in a folder, a file for each server, which only this user can read. Tickets that can't be read or written are
/// as if there were none.
#[derive(Debug)]
pub struct FileTickets {
    folder: PathBuf,
}

impl FileTickets {
    /// In this folder, which is made if needed.
    ///
    /// # Errors
    /// It can't be made.
    pub fn new(folder: impl Into<PathBuf>) -> io::Result<FileTickets> {
        let folder = folder.into();
        fs::create_dir_all(&folder)?;
        Ok(FileTickets { folder })
    }

    fn file(&self, key: &str) -> PathBuf {
        let sum: String = boring::sha::sha256(key.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        self.folder.join(format!("{sum}.ticket"))
    }
}

impl TicketStore for FileTickets {
    fn take(&mut self, key: &str) -> Option<Vec<u8>> {
        let path = self.file(key);
        let mut ticket = Vec::new();
        fs::File::open(&path).ok()?.take(MOST_BYTES + 1).read_to_end(&mut ticket).ok()?;
        // One that stays would be used twice.
        fs::remove_file(&path).ok()?;
        (ticket.len() as u64 <= MOST_BYTES).then_some(ticket)
    }

    fn put(&mut self, key: &str, ticket: &[u8]) {
        if ticket.len() as u64 <= MOST_BYTES {
            // Without it, the next connection is a full handshake.
            let _ = files::replace_secret(&self.file(key), ticket);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_a_store(store: &mut dyn TicketStore) {
        assert_eq!(store.take("a:443"), None);
        store.put("a:443", b"1");
        store.put("../b:443", b"2");
        store.put("a:443", b"3");
        assert_eq!(store.take("a:443").as_deref(), Some(&b"3"[..]));
        assert_eq!(store.take("a:443"), None);
        assert_eq!(store.take("../b:443").as_deref(), Some(&b"2"[..]));
    }

    #[test]
    fn stores() {
        is_a_store(&mut MemoryTickets::default());
        let folder = std::env::temp_dir().join(format!("weir-tickets-{}", std::process::id()));
        is_a_store(&mut FileTickets::new(&folder).unwrap());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        fs::remove_dir(folder).unwrap();
    }

    #[test]
    fn memory_is_bounded() {
        let mut store = MemoryTickets::default();
        (0..200).for_each(|n| store.put(&n.to_string(), b"x"));
        assert_eq!((store.tickets.len(), store.take("0"), store.take("199").is_some()), (MOST_TICKETS, None, true));
    }
}
