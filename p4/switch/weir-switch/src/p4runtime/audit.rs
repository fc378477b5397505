// SPDX-License-Identifier: Apache-2.0
//! A line for each change that a controller asks for: client, change, time, and result, as JSON. Lines, files and
//! reports of refusals are bounded, so that nobody can fill a disk by asking.
use super::lock::lock;
use super::proto::p4::v1::{Update, entity::Entity, update::Type};
use crate::rotation::RotatingFile;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::io::{Error, Result, Write};
use std::path::Path;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};
use tonic::Status;
use tracing::{error, warn};
use weir_p4::p4info::{P4Info, Preambled};

/// Kinds of updates that a line distinguishes; further ones are counted together.
const MOST_KINDS: usize = 16;
/// Of a message in a line, and of a name.
const MESSAGE_CHARS: usize = 300;
const NAME_CHARS: usize = 80;
/// Lines about refusals of one client: a second, in a burst; the rest is counted in the next line. So many clients have
/// room of their own at once.
const REFUSALS_PER_S: u64 = 10;
const REFUSALS_BURST: u64 = 100;
const REFUSALS_CLIENTS: usize = 64;

/// A change, or one that was refused. `at_unix_ms` and the number of left-out lines are added when it is written.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Entry {
    /// The subject of the client's certificate; empty without one.
    pub who: String,
    /// Address and port of the client.
    pub from: String,
    /// The call, or the message on a stream.
    pub call: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub role: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub election_id: Option<String>,
    /// Whether the caller is primary now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary: Option<bool>,
    /// Of a Write: how many of each kind, as "INSERT ingress.ipv4_lpm".
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub updates: BTreeMap<String, u64>,
    /// Updates of a Write that were refused.
    #[serde(skip_serializing_if = "is_zero")]
    pub failed: u64,
    /// Of a program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cookie: Option<u64>,
    #[serde(skip_serializing_if = "is_zero")]
    pub program_bytes: u64,
    /// The canonical code, as "OK" or "PERMISSION_DENIED".
    pub result: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// A canonical code as P4Runtime writes it.
fn code_name(code: tonic::Code) -> String {
    let mut name = String::new();
    for c in format!("{code:?}").chars() {
        if c.is_ascii_uppercase() && !name.is_empty() && code != tonic::Code::Ok {
            name.push('_');
        }
        name.push(c.to_ascii_uppercase());
    }
    name
}

fn cut(text: &str, most_chars: usize) -> String {
    text.chars().take(most_chars).collect()
}

impl Entry {
    pub fn of_role(mut self, role: &str) -> Entry {
        self.role = cut(role, NAME_CHARS);
        self
    }

    fn is_refusal(&self) -> bool {
        self.result != code_name(tonic::Code::Ok) && self.updates.is_empty()
    }

    pub fn ended<T>(mut self, result: &std::result::Result<T, Status>) -> Entry {
        let (code, message) = result.as_ref().map_or_else(|s| (s.code(), s.message()), |_| (tonic::Code::Ok, ""));
        self.result = code_name(code);
        self.message = cut(message, MESSAGE_CHARS);
        self
    }
}

fn find(info: &P4Info, id: u32) -> Option<&str> {
    fn of<T: Preambled>(list: &[T], id: u32) -> Option<&str> {
        list.iter().find(|x| x.id() == id).map(|x| x.name())
    }
    of(&info.tables, id)
        .or_else(|| of(&info.action_profiles, id))
        .or_else(|| of(&info.counters, id))
        .or_else(|| of(&info.meters, id))
        .or_else(|| of(&info.value_sets, id))
        .or_else(|| of(&info.registers, id))
        .or_else(|| of(&info.digests, id))
}

/// The id of an update's object, or its name where there is none.
fn about(update: &Update) -> std::result::Result<u32, &'static str> {
    let of_table = |entry: Option<&super::proto::p4::v1::TableEntry>| entry.map_or(0, |e| e.table_id);
    match update.entity.as_ref().and_then(|e| e.entity.as_ref()) {
        Some(Entity::TableEntry(e)) => Ok(e.table_id),
        Some(Entity::ActionProfileMember(e)) => Ok(e.action_profile_id),
        Some(Entity::ActionProfileGroup(e)) => Ok(e.action_profile_id),
        Some(Entity::MeterEntry(e)) => Ok(e.meter_id),
        Some(Entity::DirectMeterEntry(e)) => Ok(of_table(e.table_entry.as_ref())),
        Some(Entity::CounterEntry(e)) => Ok(e.counter_id),
        Some(Entity::DirectCounterEntry(e)) => Ok(of_table(e.table_entry.as_ref())),
        Some(Entity::RegisterEntry(e)) => Ok(e.register_id),
        Some(Entity::DigestEntry(e)) => Ok(e.digest_id),
        Some(Entity::ValueSetEntry(e)) => Ok(e.value_set_id),
        Some(Entity::PacketReplicationEngineEntry(_)) => Err("replication"),
        Some(Entity::ExternEntry(_)) => Err("extern"),
        None => Err("nothing"),
    }
}

/// Number of updates of each kind, by their names in the program that they are for.
pub fn tally(updates: &[Update], info: &P4Info) -> BTreeMap<String, u64> {
    let mut counts: BTreeMap<(i32, std::result::Result<u32, &str>), u64> = BTreeMap::new();
    for update in updates {
        let kind = (update.r#type, about(update));
        if counts.len() < MOST_KINDS || counts.contains_key(&kind) {
            *counts.entry(kind).or_default() += 1;
        }
    }
    let told: u64 = counts.values().sum();
    let name = |kind: i32, what: std::result::Result<u32, &str>| {
        let verb = Type::try_from(kind).map_or("?", |t| t.as_str_name());
        match what {
            Ok(id) => find(info, id)
                .map_or_else(|| format!("{verb} 0x{id:08x}"), |name| format!("{verb} {}", cut(name, NAME_CHARS))),
            Err(what) => format!("{verb} {what}"),
        }
    };
    let mut list: BTreeMap<String, u64> = counts.into_iter().map(|((kind, what), n)| (name(kind, what), n)).collect();
    if told < updates.len() as u64 {
        list.insert("others".into(), updates.len() as u64 - told);
    }
    list
}

/// Lines that one client's refusals may still have: some a second, a burst of more.
struct Bucket {
    left: u64,
    filled_ms: u64,
}

impl Bucket {
    fn refill(&mut self, now_ms: u64) {
        let more = now_ms.saturating_sub(self.filled_ms) * REFUSALS_PER_S / 1000;
        self.left = (self.left + more).min(REFUSALS_BURST);
        // A clock that was set back must not stop it for as long.
        if more > 0 || now_ms < self.filled_ms {
            self.filled_ms = now_ms;
        }
    }
}

/// Refusals of each client by itself: by its certificate's subject, without one by its address. Pure; `now_ms` never goes
/// back by much.
#[derive(Default)]
struct Refusals {
    clients: HashMap<String, Bucket>,
    untold: u64,
}

impl Refusals {
    /// Whether a line may be written about one more; else it is counted.
    fn admit(&mut self, entry: &Entry, now_ms: u64) -> bool {
        let address = entry.from.rsplit_once(':').map_or("", |(address, _port)| address);
        let mut client = if entry.who.is_empty() { address } else { entry.who.as_str() };
        if self.clients.len() >= REFUSALS_CLIENTS && !self.clients.contains_key(client) {
            self.clients.retain(|_, bucket| {
                bucket.refill(now_ms);
                bucket.left < REFUSALS_BURST
            });
            if self.clients.len() >= REFUSALS_CLIENTS {
                client = ""; // those that came last share one
            }
        }
        let fresh = || Bucket { left: REFUSALS_BURST, filled_ms: now_ms };
        let bucket = self.clients.entry(client.to_string()).or_insert_with(fresh);
        bucket.refill(now_ms);
        if let Some(left) = bucket.left.checked_sub(1) {
            bucket.left = left;
            return true;
        }
        self.untold += 1;
        false
    }
}

/// Where lines go.
enum Sink {
    Stderr,
    File(RotatingFile),
}

impl Sink {
    fn write(&mut self, line: &[u8]) -> Result<()> {
        match self {
            Sink::Stderr => std::io::stderr().write_all(line),
            Sink::File(file) => file.write(line),
        }
    }
}

struct Log {
    sink: Sink,
    refusals: Refusals,
    /// Lines that could not be written since the last that was.
    lost: u64,
    /// The last line may have been written in part.
    torn: bool,
}

#[derive(Serialize)]
struct Line<'a> {
    at_unix_ms: u64,
    #[serde(flatten)]
    entry: &'a Entry,
    #[serde(skip_serializing_if = "is_zero")]
    refusals_untold: u64,
    #[serde(skip_serializing_if = "is_zero")]
    lines_lost: u64,
}

impl Log {
    fn record(&mut self, entry: &Entry, now_ms: u64) {
        if entry.is_refusal() && !self.refusals.admit(entry, now_ms) {
            return;
        }
        let untold = self.refusals.untold;
        let line = Line { at_unix_ms: now_ms, entry, refusals_untold: untold, lines_lost: self.lost };
        // After a line that was cut off the next begins on its own.
        let mut bytes = if self.torn { b"\n".to_vec() } else { Vec::new() };
        let written = serde_json::to_writer(&mut bytes, &line).map_err(Error::from).and_then(|()| {
            bytes.push(b'\n');
            self.sink.write(&bytes)
        });
        match written {
            Ok(()) => {
                if self.lost > 0 {
                    warn!("--audit: lines are written again; {} were lost", self.lost);
                }
                self.refusals.untold = 0;
                (self.lost, self.torn) = (0, false);
            }
            Err(e) => {
                if self.lost == 0 {
                    error!("--audit: a line could not be written, and further ones are tried: {e}");
                }
                self.lost += 1;
                self.torn = true;
            }
        }
    }
}

/// The audit, if there is one.
pub struct Audit(Option<Mutex<Log>>);

impl Audit {
    /// No lines at all.
    pub fn none() -> Audit {
        Audit(None)
    }

    /// Opens a file for lines, or standard error for `-`. At most `most_bytes` are in the file and as many in FILE.1.
    ///
    /// # Errors
    /// Why the file can't be had.
    pub fn open(path: &Path, most_bytes: u64) -> std::result::Result<Audit, String> {
        let sink = if path == Path::new("-") {
            Sink::Stderr
        } else {
            let file = RotatingFile::open(path, most_bytes);
            Sink::File(file.map_err(|e| format!("--audit {}: {}", path.display(), weir_p4::source::explain(path, &e)))?)
        };
        let refusals = Refusals::default();
        Ok(Audit(Some(Mutex::new(Log { sink, refusals, lost: 0, torn: false }))))
    }

    /// Whether anybody wants lines.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Writes a line, unless it is a refusal too many.
    pub fn record(&self, entry: &Entry) {
        if let Some(log) = &self.0 {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            lock(log).record(entry, now.as_millis() as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;
    use std::path::PathBuf;

    fn entry(result: &str) -> Entry {
        Entry { who: "CN=a".into(), call: "Write", result: result.into(), ..Default::default() }
    }

    fn log(most_bytes: u64) -> (PathBuf, Log) {
        let folder = std::env::temp_dir().join(format!("weir-audit-{}-{most_bytes}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("audit.jsonl");
        let Audit(Some(log)) = Audit::open(&path, most_bytes).unwrap() else { panic!("it is on") };
        (folder, log.into_inner().unwrap())
    }

    #[test]
    fn codes_have_the_names_of_p4runtime() {
        for (code, want) in [
            (tonic::Code::Ok, "OK"),
            (tonic::Code::PermissionDenied, "PERMISSION_DENIED"),
            (tonic::Code::Unknown, "UNKNOWN"),
        ] {
            assert_eq!(code_name(code), want);
        }
    }

    #[test]
    fn a_file_and_the_one_before_are_all_there_is() {
        let (folder, mut log) = log(1000);
        for n in 0..100 {
            log.record(&entry("OK"), n);
        }
        let text = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
        let (now, before) = (text("audit.jsonl"), text("audit.jsonl.1"));
        assert!(now.len() <= 1000 && before.len() <= 1000);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 2);
        // The last of them, in order, none cut.
        let at = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["at_unix_ms"].as_u64().unwrap();
        let all: Vec<u64> = before.lines().chain(now.lines()).map(at).collect();
        assert_eq!(all, (100 - all.len() as u64..100).collect::<Vec<_>>());
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn refusals_beyond_a_burst_are_counted_and_changes_are_not_held_up_by_them() {
        let (folder, mut log) = log(1 << 20);
        for _ in 0..5 * REFUSALS_BURST {
            log.record(&entry("PERMISSION_DENIED"), 50_000);
        }
        log.record(&entry("OK"), 50_000);
        log.record(&entry("PERMISSION_DENIED"), 51_000);
        // The clock is set back by a minute: no longer pause for that.
        for now_ms in [1000, 2000] {
            log.record(&entry("PERMISSION_DENIED"), now_ms);
        }
        let text = std::fs::read_to_string(folder.join("audit.jsonl")).unwrap();
        let lines: Vec<serde_json::Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        assert_eq!(lines.len() as u64, REFUSALS_BURST + 4);
        assert_eq!(lines[REFUSALS_BURST as usize]["refusals_untold"], 4 * REFUSALS_BURST);
        assert_eq!(lines[REFUSALS_BURST as usize]["result"], "OK");
        assert!(lines.last().unwrap().get("refusals_untold").is_none());
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_flood_of_one_client_leaves_the_lines_of_others() {
        let (folder, mut log) = log(2 << 20);
        let refused = |who: &str, from: String| Entry {
            who: who.into(),
            from,
            call: "Write",
            result: "PERMISSION_DENIED".into(),
            ..Default::default()
        };
        for port in 0..5 * REFUSALS_BURST {
            log.record(&refused("CN=reader", format!("192.0.2.7:{port}")), 50_000);
            log.record(&refused("", format!("[2001:db8::7]:{port}")), 50_000);
        }
        log.record(&refused("CN=other", "192.0.2.7:1".into()), 50_000);
        log.record(&refused("", "[2001:db8::8]:1".into()), 50_000);
        let text = std::fs::read_to_string(folder.join("audit.jsonl")).unwrap();
        let lines: Vec<serde_json::Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        assert_eq!(lines.len() as u64, 2 * REFUSALS_BURST + 2);
        assert_eq!(lines[lines.len() - 2]["who"], "CN=other");
        // Names are not kept for ever, and those beyond the limit share one bucket.
        for name in 0..2 * REFUSALS_CLIENTS {
            log.record(&refused(&format!("CN={name}"), String::new()), 50_000);
        }
        assert!(log.refusals.clients.len() <= REFUSALS_CLIENTS + 1);
        log.record(&refused("CN=late", String::new()), 500_000);
        assert!(log.refusals.clients.contains_key("CN=late"));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn lines_that_could_not_be_written_are_counted_in_the_next() {
        let (folder, mut log) = log(500);
        log.record(&entry("OK"), 1);
        let Sink::File(sink) = &mut log.sink else { unreachable!() };
        // Nothing can be written to it; the disk is full.
        let good = std::mem::replace(&mut sink.file, OpenOptions::new().write(true).open("/dev/full").unwrap());
        log.record(&entry("OK"), 2);
        log.record(&entry("OK"), 3);
        let Sink::File(sink) = &mut log.sink else { unreachable!() };
        sink.file = good;
        log.record(&entry("OK"), 4);
        let text = std::fs::read_to_string(folder.join("audit.jsonl")).unwrap();
        let last: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        assert_eq!((&last["at_unix_ms"], &last["lines_lost"]), (&4.into(), &2.into()));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_write_of_many_kinds_is_a_short_line() {
        let table = |table_id| super::super::proto::p4::v1::TableEntry { table_id, ..Default::default() };
        let update = |id| Update {
            r#type: Type::Insert as i32,
            entity: Some(super::super::proto::p4::v1::Entity { entity: Some(Entity::TableEntry(table(id))) }),
        };
        let updates: Vec<Update> = (0..4000).map(update).chain([Update::default()]).collect();
        let list = tally(&updates, &P4Info::default());
        assert_eq!(list.len(), MOST_KINDS + 1);
        assert_eq!(list["others"], 4001 - MOST_KINDS as u64);
        assert_eq!(list["INSERT 0x00000003"], 1);
    }
}
