// SPDX-License-Identifier: Apache-2.0
//! One wait per iteration for the interface, the group channel and signals; one object after the other.

use super::Options;
use super::known_publishers::{Accepted, KnownPublishers};
use super::output::{Output, beside_it};
use super::report::{COMPLETE, Fetched, Reporter};
use crate::commands::group::{Client, ClientEvent};
use crate::commands::options::{complain, face, receive, resolve, shown, trust, unix_s};
use crate::face::{Face, PacketSocket};
use crate::names::Name;
use crate::objects::object::lines::Answer;
use crate::objects::object::manifest::{Manifest, hex};
use crate::objects::object::sign::{PublicKey, Purpose, Signature, is_signed};
use crate::objects::subscriber::{Counts, Fetch, Outcome, Settings};
use crate::packet::{Kind, nack};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use weir_core::text::printable;
use weir_io::fault::{Fault, IO, TIMEOUT, USAGE};
use weir_io::outputs::same_file;
use weir_io::random;
use weir_io::wait::{Signals, Waiter, moment};

const FACE: u64 = 0;
const GROUP: u64 = 1;
const SIGNAL: u64 = 2;
/// Exit codes as `weir-client` has them.
const INCOMPLETE: u8 = 6;
const NO_SUCH: u8 = 7;
const INTERRUPTED: u8 = 130;
/// Number of its request, at its group: one object at a time.
const OBJECT: u64 = 0;
/// Interval of showing progress and of writing the list of segments.
const TICK: Duration = Duration::from_millis(500);

struct Loop<'a> {
    options: &'a Options,
    face: PacketSocket,
    group: Client,
    publisher: Option<PublicKey>,
    known: KnownPublishers,
    signals: Signals,
    waiter: Waiter,
    reporter: Reporter,
    start: Instant,
    start_us: u64,
}

/// The running fetch, its output, and its manifest.
type Current = Option<(Fetch, Output, Manifest)>;

/// End of an object, and the exit code for it.
struct End {
    fetched: Fetched,
    fault: Option<Fault>,
}

/// Fetches all, one after the other.
///
/// # Errors
/// It ends early, with its exit code.
pub fn run(options: &Options) -> Result<u8, Fault> {
    let several = options.names.len() > 1;
    if several && !options.output.is_dir() {
        let text = format!("--output {}: expected an existing folder for several names", options.output.display());
        return Err(Fault::new(USAGE, text));
    }
    if options.output.is_dir() {
        check_targets(&options.names, &options.output)?;
    }
    check_events(options)?;
    let servers = options.from.iter().map(|from| resolve("--from", from)).collect::<Result<Vec<_>, _>>()?.concat();
    let face = face(&options.interface)?;
    let reporter = Reporter::new(options)?;
    let (start, start_us) = moment();
    let trust = trust(options.ca.as_deref(), options.insecure);
    let group = Client::connect(servers, trust, start)?;
    let signals = Signals::catch().map_err(Fault::io("signals"))?;
    let waiter = Waiter::new().map_err(Fault::io("epoll"))?;
    for (fd, token) in [(face.fd(), FACE), (signals.fd(), SIGNAL)] {
        waiter.add(fd, token).map_err(Fault::io("epoll"))?;
    }
    let publisher = options.publisher;
    let known = KnownPublishers::new(options.known_publishers.as_deref());
    let mut this = Loop { options, face, group, publisher, known, signals, waiter, reporter, start, start_us };
    let (mut fetched, mut first_fault) = (Vec::new(), None);
    for name in &options.names {
        let (end, goes_on) = this.object(name);
        fetched.push(end.fetched);
        if let Some(fault) = end.fault {
            complain(&fault.text);
            first_fault = first_fault.or(Some(fault.code));
        }
        if !goes_on {
            break;
        }
    }
    this.group.close();
    let counts = this.face.counts();
    let whole = this.reporter.finish(options, &fetched, &counts, &this.group.counts)?;
    Ok(first_fault.unwrap_or(if whole { 0 } else { IO }))
}

/// The file of an object in a folder.
fn below(folder: &Path, name: &Name) -> PathBuf {
    folder.join(name.text().rsplit('/').next().unwrap_or("object"))
}

/// Objects that would be written to one file, or one to what another is made from, are refused.
fn check_targets(names: &[Name], folder: &Path) -> Result<(), Fault> {
    let mut files: BTreeMap<PathBuf, &Name> = BTreeMap::new();
    for name in names {
        let target = below(folder, name);
        for file in beside_it(&target).into_iter().chain([target]) {
            if let Some(other) = files.insert(file.clone(), name) {
                let text = "both need this file: fetch them one by one, each with an --output of its own";
                return Err(Fault::new(USAGE, format!("{}: {other} and {name} {text}", shown(&file))));
            }
        }
    }
    Ok(())
}

/// Where an object goes.
fn target(options: &Options, name: &Name) -> PathBuf {
    match options.output.is_dir() {
        true => below(&options.output, name),
        false => options.output.clone(),
    }
}

/// Events have a file of their own: among an object's content they would spoil it. (The result is printed on standard error
/// where standard output is an object's.)
fn check_events(options: &Options) -> Result<(), Fault> {
    let Some(events) = options.events.as_deref() else { return Ok(()) };
    let targets = options.names.iter().map(|name| target(options, name));
    let mut files = targets.flat_map(|t| beside_it(&t).into_iter().chain([t]));
    match files.find(|file| same_file(file, events)) {
        Some(file) => {
            let text = format!("--output and --events would both write to {}: expected a file for each", shown(&file));
            Err(Fault::new(USAGE, text))
        }
        None => Ok(()),
    }
}

impl Loop<'_> {
    fn t_us(&self, now: Instant) -> u64 {
        self.start_us + now.saturating_duration_since(self.start).as_micros() as u64
    }

    /// Fetches one object, which has a result whatever ends it. Whether further ones can be fetched.
    fn object(&mut self, name: &Name) -> (End, bool) {
        let began = Instant::now();
        let mut current = None;
        let (fault, goes_on) = match self.fetch(name, &mut current, began) {
            Ok(fault) => {
                let goes_on = fault.as_ref().is_none_or(|f| f.code != INTERRUPTED);
                (fault, goes_on)
            }
            Err(fault) => (Some(fault), false),
        };
        (self.end(name, current, fault, began), goes_on)
    }

    /// Returns the fault that kept an object from being complete.
    ///
    /// # Errors
    /// A fault that keeps all other objects from it too: the interface was removed, for example.
    fn fetch(&mut self, name: &Name, current: &mut Current, began: Instant) -> Result<Option<Fault>, Fault> {
        self.group.get(OBJECT, name, began)?;
        let mut tick = began + TICK;
        let mut ready = Vec::new();
        let mut out = Vec::new();
        let mut keyless = 0;
        loop {
            let now = Instant::now();
            let mut ended = None;
            for event in self.group.turn(now)? {
                match event {
                    ClientEvent::Answer(_, answer) => ended = self.answer(answer, name, current, now)?,
                    ClientEvent::Wrong(_, e) => ended = Some(Fault::new(INCOMPLETE, format!("{name}: {e}"))),
                    ClientEvent::Closed(fault) => return Err(fault),
                    // It asks for one object at a time, so nothing else was answered.
                    ClientEvent::Unanswered(_) => {}
                    ClientEvent::Lost(fault) => {
                        // Fetching by name goes on without it: caches and others may still answer.
                        complain(&format!(
                            "{name}: {}; it goes on with the keys there are, and asks for more",
                            fault.text
                        ));
                        let t_us = self.t_us(now);
                        self.reporter.event(t_us, "icn:group_lost", &serde_json::json!({ "why": fault.text }));
                    }
                    ClientEvent::Back(back) => {
                        if !back.migrated {
                            complain(&format!("{name}: {} answers", back.server));
                        }
                        let t_us = self.t_us(now);
                        self.reporter.event(t_us, "icn:group", &back);
                    }
                }
            }
            for fd in self.group.new_fds() {
                self.waiter.add(fd, GROUP).map_err(Fault::io("epoll"))?;
            }
            if ended.is_some() {
                return Ok(ended);
            }
            if let Some((fetch, output, manifest)) = current {
                if self.group.take_heard() {
                    fetch.alive(now);
                }
                let mut unknown = false;
                receive(&mut self.face, |header, payload| match header.kind {
                    Kind::Data => fetch.data(header, payload, now, output),
                    Kind::Nack => {
                        unknown |= header.code == nack::NO_SUCH_NAME;
                        fetch.nack(header, now, output);
                    }
                    Kind::Interest => fetch.overheard(header, now),
                })?;
                // There is a newer key than those that were told, or the publisher does not know what it offered.
                if std::mem::replace(&mut keyless, fetch.counts.keyless) < fetch.counts.keyless || unknown {
                    self.group.doubt(now);
                }
                out.clear();
                fetch.poll(now, output, &mut out);
                out.iter().for_each(|header| self.face.push(header, &[]));
                self.face.flush();
                let t_us = self.t_us(now);
                self.reporter.changes(t_us, fetch);
                if now >= tick {
                    tick = now + TICK;
                    if manifest.layout.is_some()
                        && let Err(fault) = output.save(&fetch.kept())
                    {
                        return Ok(Some(fault));
                    }
                    let segments = manifest.layout.map(|l| l.content_segments());
                    self.reporter.progress(t_us, name.text(), fetch, segments, now - began);
                }
            } else {
                receive(&mut self.face, |_, _| ())?;
            }
            if let Some((fetch, ..)) = current
                && let Some(outcome) = fetch.outcome()
            {
                return Ok(fault_of(name, outcome, fetch, self.options, self.group.is_lost()));
            }
            let unanswered = current.is_none().then(|| began + self.options.give_up());
            if unanswered.is_some_and(|at| at <= now) {
                let text = format!("{name}: no server answered for {} s", self.options.give_up_s);
                return Ok(Some(Fault::new(TIMEOUT, text)));
            }
            if ready.contains(&SIGNAL) && self.signals.take().is_some() {
                return Ok(Some(Fault::new(INTERRUPTED, format!("{name}: interrupted"))));
            }
            let fetching = current.as_ref().and_then(|(fetch, ..)| fetch.deadline());
            let ticking = current.is_some().then_some(tick);
            let deadline = [self.group.deadline(), fetching, ticking, unanswered].into_iter().flatten().min();
            self.waiter.wait(Instant::now(), deadline, &mut ready).map_err(Fault::io("epoll"))?;
        }
    }

    /// An answer of the publisher. Returns the fault that ends the object, if that does.
    ///
    /// # Errors
    /// The TLS library fails, or there are no random numbers.
    fn answer(
        &mut self,
        answer: Answer,
        name: &Name,
        current: &mut Current,
        now: Instant,
    ) -> Result<Option<Fault>, Fault> {
        let keys = match answer {
            Answer::Error(why) if current.is_none() => {
                return Ok(Some(Fault::new(NO_SUCH, format!("the publisher says: {}", printable(&why)))));
            }
            Answer::Error(why) => return Ok(Some(Fault::new(INCOMPLETE, format!("{name}: {}", printable(&why))))),
            Answer::Keys(keys) | Answer::Begin { keys, .. } => keys,
            // On another connection, of a server that does not know what is there already.
            Answer::Welcome { manifest: text, signature, keys, .. } if current.is_some() => {
                let Some((_, _, manifest)) = current else { return Ok(None) };
                match offer(manifest, &text, &signature) {
                    Offer::Same => keys,
                    // The fetch goes on with the keys that it has.
                    Offer::Earlier => {
                        complain(&format!("{name}: a server replays an earlier manifest, which is ignored"));
                        return Ok(None);
                    }
                    Offer::Other => {
                        let why = "the publisher offers something else under this name now; ask for it again";
                        return Ok(Some(Fault::new(INCOMPLETE, format!("{name}: {why}"))));
                    }
                }
            }
            Answer::Welcome { manifest: text, signature, begin, keys } => {
                let wrong = |why: String| Ok(Some(Fault::new(INCOMPLETE, format!("{name}: {why}"))));
                let manifest = match Manifest::parse(&text) {
                    Ok(manifest) => manifest,
                    Err(e) => return wrong(e.to_string()),
                };
                if manifest.name != *name {
                    return wrong(format!("the manifest is for another object, {}", printable(manifest.name.text())));
                }
                if !is_signed(&manifest.publisher, Purpose::Manifest, text.as_bytes(), &signature) {
                    return wrong("the manifest's signature is wrong".to_owned());
                }
                // Without --publisher the first object's is that of all: the servers of --from are one publisher's.
                let expected = *self.publisher.get_or_insert(manifest.publisher);
                if expected != manifest.publisher {
                    let not = self.options.publisher.map_or_else(|| hex(&expected), |_| "--publisher".to_owned());
                    return wrong(format!("signed by {}, not by {not}", hex(&manifest.publisher)));
                }
                let max_age_s = self.options.max_age;
                if max_age_s > 0 && manifest.is_older_than(max_age_s, unix_s()) {
                    let age = manifest.issued_s.map_or("at an unknown time".to_owned(), |issued_s| {
                        format!("{} s ago", unix_s().saturating_sub(issued_s))
                    });
                    return wrong(format!("the manifest was signed {age}; --max-age is {max_age_s}"));
                }
                if let Err(fault) = self.check_known(&manifest) {
                    return Ok(Some(fault));
                }
                let (output, kept) = match Output::open(&target(self.options, name), &manifest, self.options.restart) {
                    Ok(opened) => opened,
                    Err(fault) => return Ok(Some(fault)),
                };
                let settings = Settings {
                    beta: self.options.beta,
                    gaps: !self.options.no_gaps,
                    ordered: output.is_ordered(),
                    repair: !self.options.no_repair,
                    give_up: self.options.give_up(),
                    round_trip: self.group.round_trip(),
                    seed: u64::from_be_bytes(random::bytes()?),
                };
                let data = serde_json::json!({
                    "object": name.text(), "version": manifest.version, "bytes": manifest.layout.map(|l| l.bytes),
                    "begin": begin, "kept_segments": kept.len(), "publisher": hex(&manifest.publisher),
                });
                let t_us = self.t_us(now);
                self.reporter.event(t_us, "icn:manifest", &data);
                self.group.has(OBJECT, &manifest.version);
                let fetch = match Fetch::new(&manifest, settings, begin, kept, now) {
                    Ok(fetch) => fetch,
                    Err(e) => return wrong(e.to_string()),
                };
                self.reporter.begin();
                *current = Some((fetch, output, manifest));
                keys
            }
        };
        if let Some((fetch, output, _)) = current {
            fetch.keys(&keys, now, output).map_err(Fault::internal("TLS library"))?;
            let epochs: Vec<_> = keys.iter().map(|k| k.epoch).collect();
            let t_us = self.t_us(now);
            self.reporter.event(t_us, "icn:keys", &serde_json::json!({ "epochs": epochs }));
        }
        Ok(None)
    }

    /// Checks the publisher's key against those of earlier runs, unless the user gave it.
    fn check_known(&self, manifest: &Manifest) -> Result<(), Fault> {
        if self.options.publisher.is_some() {
            return Ok(());
        }
        let key = hex(&manifest.publisher);
        match self.known.check(&manifest.name, self.options.pin_folder, &manifest.publisher)? {
            Accepted::Added(file, beside) if !self.options.quiet || beside.is_some() => {
                let beside = beside.map_or(String::new(), |name| format!("; {name} beside it has another key"));
                let file = shown(&file);
                complain(&format!("{}: the publisher's key {key} is new, and kept in {file}{beside}", manifest.name));
            }
            Accepted::NotKept(why) => {
                complain(&format!("{}: the publisher's key {key} is new, and not kept: {}", manifest.name, why.text));
            }
            Accepted::AsBefore | Accepted::Added(..) => {}
        }
        Ok(())
    }

    /// Ends an object and returns its result.
    fn end(&mut self, name: &Name, current: Current, mut fault: Option<Fault>, began: Instant) -> End {
        let now = Instant::now();
        self.group.leave(OBJECT);
        if let Err(e) = self.group.turn(now)
            && fault.is_none()
        {
            complain(&format!("{name}: the publisher can't be told that it is complete: {}", e.text));
        }
        let seconds = (now - began).as_secs_f64();
        let (mut counts, mut bytes, mut segments, mut response_time_us) = (Counts::default(), None, 0, None);
        if let Some((fetch, output, manifest)) = current {
            counts = fetch.counts;
            segments = fetch.checked();
            response_time_us = fetch.response_time().map(|t| t.as_micros() as u64);
            bytes = manifest.layout.map(|l| l.bytes);
            match &mut fault {
                None => fault = output.finish(&fetch.kept()).err(),
                Some(fault) => match output.stop(&fetch.kept()) {
                    Ok(Some(path)) => fault.text += &format!("; what came is in {}", shown(&path)),
                    Ok(None) => {}
                    Err(e) if e.text == fault.text => {} // said already
                    Err(e) => complain(&e.text),
                },
            }
        }
        let outcome = fault.as_ref().map_or_else(|| COMPLETE.to_owned(), |f| f.text.clone());
        let fetched_bytes = segments as f64 * 1440.0;
        let share = |part: u64, of: u64| if of == 0 { 0.0 } else { part as f64 * 100.0 / of as f64 };
        let fetched = Fetched {
            name: name.text().to_owned(),
            outcome,
            bytes,
            seconds,
            goodput_mbit_s: bytes.filter(|_| fault.is_none()).map_or(fetched_bytes, |b| b as f64) * 8e-6 / seconds,
            segments,
            response_time_us,
            retransmissions_percent: share(counts.asked_again, counts.asked),
            counts,
        };
        let t_us = self.t_us(now);
        self.reporter.event(t_us, "icn:end", &fetched);
        End { fetched, fault }
    }
}

/// A manifest that a server offers, beside the one of an object that is being fetched.
#[derive(Debug, PartialEq, Eq)]
enum Offer {
    /// Of the same version.
    Same,
    /// The publisher has replaced it since.
    Earlier,
    /// Of another version, or not the publisher's.
    Other,
}

fn offer(current: &Manifest, text: &str, signature: &Signature) -> Offer {
    let signed = is_signed(&current.publisher, Purpose::Manifest, text.as_bytes(), signature);
    match Manifest::parse(text) {
        Ok(offered) if signed && offered.version == current.version => Offer::Same,
        Ok(offered) if signed && offered.is_replaced_by(current) => Offer::Earlier,
        _ => Offer::Other,
    }
}

/// Fault of an outcome; `None` if it is a success.
fn fault_of(name: &Name, outcome: &Outcome, fetch: &Fetch, options: &Options, lost_group: bool) -> Option<Fault> {
    let (skipped, wrong) = (fetch.counts.skipped, fetch.wrong_of_late());
    match outcome {
        Outcome::Complete if skipped > 0 => {
            let text = format!("{name}: up to {skipped} segments of the stream were gone before they were asked for");
            Some(Fault::new(INCOMPLETE, text))
        }
        Outcome::Complete => None,
        Outcome::Silent if wrong > 0 => {
            let text = format!(
                "{name}: no right data came for {} s on {}: {wrong} packets were wrong, as if someone forged them",
                options.give_up_s, options.interface
            );
            Some(Fault::new(TIMEOUT, text))
        }
        Outcome::Silent => {
            let why = if lost_group { "the publisher is gone" } else { "no data came" };
            let text = format!(
                "{name}: {why}: nothing for {} s on {}; is there a route for the name?",
                options.give_up_s, options.interface
            );
            Some(Fault::new(TIMEOUT, text))
        }
        Outcome::Refused(nack::NO_ROUTE) => {
            let text = format!("{name}: a switch has no route for this name; its operator adds one");
            Some(Fault::new(INCOMPLETE, text))
        }
        Outcome::Refused(_) => {
            let text = format!("{name}: it is no longer what the manifest says; ask for it again");
            Some(Fault::new(INCOMPLETE, text))
        }
        Outcome::Store(why) => Some(Fault::new(IO, why.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::object::sign::SigningKey;

    #[test]
    fn an_earlier_manifest_of_another_version_is_a_replay() {
        let key = SigningKey::generate().unwrap();
        let signed = |version: &str, issued_s| Manifest {
            name: Name::new("/a/b").unwrap(),
            version: version.repeat(16),
            layout: None,
            top: Vec::new(),
            publisher: key.public(),
            repair: None,
            issued_s,
        };
        let current = signed("1", Some(1000));
        let offered = |manifest: &Manifest, key: &SigningKey| {
            let text = manifest.text().unwrap();
            offer(&current, &text, &key.sign(Purpose::Manifest, text.as_bytes()).unwrap())
        };
        assert_eq!(offered(&signed("0", Some(999)), &key), Offer::Earlier);
        assert_eq!(offered(&signed("0", None), &key), Offer::Earlier);
        assert_eq!(offered(&signed("0", Some(1001)), &key), Offer::Other);
        assert_eq!(offered(&signed("1", Some(999)), &key), Offer::Same);
        assert_eq!(offered(&signed("0", Some(999)), &SigningKey::generate().unwrap()), Offer::Other);
    }

    #[test]
    fn no_object_is_written_over_another() {
        let check = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|n| Name::new(n).unwrap()).collect();
            check_targets(&names, Path::new("dir"))
        };
        assert!(check(&["/a/x", "/a/y", "/b/x.mp4"]).is_ok());
        for names in [["/a/x", "/b/x"], ["/a/x", "/a/x"], ["/a/x", "/a/x.part"], ["/a/x.part.json", "/b/x"]] {
            let e = check(&names).unwrap_err();
            assert!(e.code == USAGE && e.text.contains("dir/x") && names.iter().all(|n| e.text.contains(n)), "{e}");
        }
    }
}
