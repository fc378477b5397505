// SPDX-License-Identifier: Apache-2.0
//! Entry points of fuzzers: the targets `icn_*` of `quic-client/fuzz`, and a bounded run in the tests. Each takes any
//! bytes, and panics where the code under test panics or breaks one of its promises.

use crate::face::read_frame;
use crate::names::Name;
use crate::objects::cache::Cache;
use crate::objects::object::keys::{GroupKey, KeyRing};
use crate::objects::object::layout::{Item, Layout, REPAIR, SEGMENT_BYTES};
use crate::objects::object::lines::{Answer, Lines, MOST_LINE_BYTES, Request};
use crate::objects::object::manifest::Manifest;
use crate::objects::object::names::LevelNames;
use crate::objects::object::repair::{Encoder, Repair};
use crate::objects::object::seal::Secret;
use crate::objects::object::sign::SigningKey;
use crate::objects::object::tree::{Tree, hash};
use crate::objects::publisher::{Content, Index, Publisher};
use crate::objects::subscriber::{Fetch, Outcome, Segments, Settings, Store};
use crate::packet::{HEADER_BYTES, Header, Kind, MAX_PAYLOAD_BYTES, SEGMENTS_PER_INTEREST, flags, nack};
use crate::qvdp::{Client, Config, Ecn, Server, Sink};
use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);

/// Numbers out of bytes; zeros when those are used up.
struct Source<'a>(&'a [u8]);

impl Source<'_> {
    fn more(&self) -> bool {
        !self.0.is_empty()
    }

    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| {
            let Some((first, rest)) = self.0.split_first() else { return 0 };
            self.0 = rest;
            *first
        })
    }

    fn byte(&mut self) -> u8 {
        let [byte] = self.bytes();
        byte
    }

    fn short(&mut self) -> u16 {
        u16::from_le_bytes(self.bytes())
    }

    /// Mostly below `n`, else any number.
    fn near(&mut self, n: u32) -> u32 {
        match self.byte() {
            0..8 => u32::from_le_bytes(self.bytes()),
            low => (u32::from(low) << 8 | u32::from(self.byte())) % n,
        }
    }

    /// Up to 63 bytes, or as many of one kind as a payload may have.
    fn payload(&mut self) -> Vec<u8> {
        let length = usize::from(self.byte());
        match length {
            0..64 => (0..length).map(|_| self.byte()).collect(),
            _ => vec![self.byte(); (length - 63) * MAX_PAYLOAD_BYTES / 192],
        }
    }
}

/// Any bytes as a packet: what is read is written the same.
pub fn packet(data: &[u8]) {
    let Ok((header, payload)) = Header::read(data) else { return };
    assert_eq!(header.bytes(payload.len()), data[..HEADER_BYTES]);
    assert!(header.segments().count() <= SEGMENTS_PER_INTEREST as usize);
    assert_eq!(header.segments().count(), 1 + header.holes.count_ones() as usize);
    assert_eq!(Header::read(&data[..HEADER_BYTES + payload.len()]), Ok((header, payload)));
    for cut in 0..HEADER_BYTES + payload.len() {
        assert!(Header::read(&data[..cut]).is_err(), "cut at {cut}");
    }
}

/// Any bytes as an Ethernet frame: read as the packet in it.
pub fn frame(data: &[u8]) {
    const ETHERNET_BYTES: usize = 14;
    let inside = data.get(ETHERNET_BYTES..).and_then(|packet| Header::read(packet).ok());
    let read = read_frame(data);
    assert_eq!(read, inside);
    if let Some((_, payload)) = read {
        let padded = [data, &[0; 46]].concat();
        assert_eq!(read_frame(&padded), read, "padding is no payload");
        assert!(ETHERNET_BYTES + HEADER_BYTES + payload.len() <= data.len());
    }
}

/// Any bytes as the secret of session tickets, and as the name of a ticket's key.
pub fn tickets(data: &[u8]) {
    crate::commands::group::tickets::fuzz(data);
}

/// Any bytes as a name: taken as it stands, or refused.
pub fn name(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Ok(name) = Name::new(&text) else { return };
    assert_eq!(name.text(), text);
    assert!(name.hash() != 0 && name.prefix() >> 48 != 0);
    assert!(name.covers(name.prefix()));
    if let Ok(child) = name.child("a") {
        assert!(name.covers(child.prefix()));
    }
}

/// Any bytes as lines of publisher and subscriber, and as a manifest.
pub fn lines(data: &[u8]) {
    let mut reader = Lines::new(MOST_LINE_BYTES);
    let (mut longest, mut all) = (0, 0);
    for part in data.chunks(usize::from(data.first().copied().unwrap_or(0)) + 1) {
        let pushed = reader.push(part, |line| {
            (longest, all) = (line.len().max(longest), all + line.len());
            one_line(line);
        });
        if pushed.is_err() {
            break;
        }
    }
    assert!(longest <= MOST_LINE_BYTES && all <= data.len());
    one_line(data);
}

fn one_line(line: &[u8]) {
    if let Ok(answer) = Answer::parse(line) {
        let written = answer.line().expect("it was one");
        assert_eq!(Answer::parse(written.trim_end().as_bytes()).as_ref(), Ok(&answer));
        if let Answer::Welcome { manifest: text, begin, keys, .. } = answer {
            manifest(&text, begin, &keys);
        }
    }
    if let Ok(request) = Request::parse(line) {
        let written = request.line().expect("it was one");
        assert_eq!(Request::parse(written.trim_end().as_bytes()), Ok(request));
    }
    if let Ok(text) = std::str::from_utf8(line) {
        manifest(text, line.len() as u32, &[]);
    }
}

/// A manifest that is taken can be fetched by: asking for it does no harm.
fn manifest(text: &str, begin: u32, keys: &[GroupKey]) {
    let Ok(manifest) = Manifest::parse(text) else { return };
    let written = manifest.text().expect("it was one");
    assert_eq!(Manifest::parse(&written).as_ref(), Ok(&manifest));
    let now = Instant::now();
    for (ordered, begin) in [(false, begin), (true, u32::MAX)] {
        let Ok(mut fetch) = Fetch::new(&manifest, settings(ordered), begin, Segments::default(), now) else { continue };
        fetch.keys(keys, now, &mut Nothing).expect("the TLS library");
        for ms in [0, 100, 5000] {
            fetch.poll(now + ms * MS, &mut Nothing, &mut Vec::new());
            fetch.check_budgets();
        }
    }
}

fn settings(ordered: bool) -> Settings {
    let round_trip = Duration::from_millis(10);
    Settings { beta: 8.0, gaps: true, ordered, repair: true, give_up: Duration::from_secs(3600), round_trip, seed: 1 }
}

/// Nothing is to be written here.
struct Nothing;

impl Store for Nothing {
    fn write(&mut self, segment: u32, _: &[u8]) -> Result<(), String> {
        panic!("segment {segment} was given on")
    }

    fn read(&mut self, _: u32, _: usize) -> Option<Vec<u8>> {
        None
    }
}

#[derive(Default)]
struct Out {
    packets: usize,
    datagram_bytes: usize,
}

impl<A> Sink<A> for Out {
    fn packet(&mut self, header: &Header, payload: &[u8]) {
        // As the face does: it panics where readers would call it malformed.
        header.bytes(payload.len());
        self.packets += 1;
    }

    fn datagram(&mut self, _: A, bytes: &[u8], _: Ecn) {
        self.datagram_bytes += bytes.len();
    }
}

/// Any bytes as packets, datagrams and waits at both sides of QVDP: budgets hold, and no packet makes many.
pub fn qvdp(data: &[u8]) {
    let mut source = Source(data);
    let name = |text: &str| Name::new(text).expect("a name");
    let config = Config { reliable: source.byte() % 2 == 0, gaps: source.byte() % 4 > 0, ..Config::default() };
    let mut client = Client::new(name("/weir/hosts/phone"), name("/weir/web"), config).expect("room");
    let mut server = Server::new(name("/weir/web"), config).expect("room");
    let application = SocketAddr::from(([127, 0, 0, 1], 4433));
    // The numbers that sessions get, whose names an attacker would have seen.
    let mut drawn = 0;
    let mut draw = move || {
        drawn += 1;
        drawn
    };
    let sessions: Vec<_> = (1..4).map(|id| format!("{id:016x}")).collect();
    let both =
        |session: &String| [name(&format!("/weir/web/{session}")), name(&format!("/weir/hosts/phone/{session}"))];
    let names: Vec<_> = sessions.iter().flat_map(both).chain([name("/weir/web/open"), name("/weir/web/x")]).collect();
    let mut now = Instant::now();
    while source.more() {
        let (mut near, mut far) = (Out::default(), Out::default());
        match source.byte() % 8 {
            0 => client.datagram(application, &source.payload(), Ecn::Ect, &mut draw, now, &mut near),
            1 => server.datagram(u64::from(source.byte() % 4), &source.payload(), Ecn::Off, now, &mut far),
            2 => {
                now += u32::from(source.short()) * MS / 16;
                client.timeout(now, &mut near);
                for _ in server.timeout(now, &mut far) {}
            }
            what => {
                let kind = [Kind::Interest, Kind::Data, Kind::Data, Kind::Nack, Kind::Interest][usize::from(what) - 3];
                let mut header =
                    Header { kind, ..Header::data(&names[usize::from(source.byte() % 8)], 0, source.byte()) };
                header.segment = source.near(5000);
                let payload = if kind == Kind::Nack { Vec::new() } else { source.payload() };
                match kind {
                    Kind::Interest => {
                        header.lifetime = source.short().max(1);
                        header.holes = if payload.is_empty() { source.short() } else { 0 };
                    }
                    Kind::Data => header.epoch = source.short(),
                    Kind::Nack => header.code = source.byte().max(1),
                }
                client.packet(&header, &payload, &mut draw, now, &mut near);
                server.packet(&header, &payload, now, &mut far);
            }
        }
        client.turn(now, &mut near);
        server.turn(now, &mut far);
        // Each session may ask for its credit, and a sender empty what waits.
        assert!(near.packets + far.packets < 16_384, "{} {}", near.packets, far.packets);
        client.check_budgets();
        server.check_budgets();
    }
}

/// Takes what is right, and nothing else.
struct Checked<'a> {
    content: &'a [u8],
    written: Segments,
    ordered: bool,
}

impl Checked<'_> {
    fn part(&self, segment: u32) -> &[u8] {
        self.content.chunks(SEGMENT_BYTES).nth(segment as usize).unwrap_or_default()
    }
}

impl Store for Checked<'_> {
    fn write(&mut self, segment: u32, content: &[u8]) -> Result<(), String> {
        assert!(!content.is_empty() && content == self.part(segment), "segment {segment} is wrong");
        assert!(self.written.insert(segment), "segment {segment} came twice");
        assert!(!self.ordered || self.written.len() == u64::from(segment) + 1, "segment {segment} is not in order");
        Ok(())
    }

    fn read(&mut self, segment: u32, bytes: usize) -> Option<Vec<u8>> {
        Some(self.part(segment).get(..bytes)?.to_vec())
    }
}

/// Knowledge of an attacker: the packets of an object, and its key.
struct Insider<'a> {
    content: &'a [u8],
    tree: Tree,
    names: LevelNames,
    ring: KeyRing,
    /// One for each block of [`REPAIRED`], if there are repair symbols.
    encoders: Vec<Encoder>,
}

impl Insider<'_> {
    /// Right content of a segment; another one's, where there is none.
    fn right(&self, item: Item) -> Vec<u8> {
        match item.level {
            0 => self.content.chunks(SEGMENT_BYTES).nth(item.segment as usize).unwrap_or(&[7; 9]).to_vec(),
            REPAIR => {
                let (block, symbol) = REPAIRED.symbol_of(item.segment);
                self.encoders.get(block as usize).map_or_else(|| vec![7; SEGMENT_BYTES], |e| e.symbol(symbol))
            }
            _ => self.tree.segment(item).map_or_else(|| vec![7; 64], <[u8]>::to_vec),
        }
    }

    fn data(&mut self, item: Item, epoch: u16, content: &[u8]) -> (Header, Vec<u8>) {
        let name = self.names.of(item.level).expect("a level");
        let header = Header { epoch, ..Header::data(name, item.segment, flags::ECT) };
        let sealed = self.ring.seal(item.level, &header, content).expect("the TLS library");
        (header, sealed.unwrap_or_else(|| content.to_vec()))
    }
}

const SEGMENTS: u32 = 90;
/// Five blocks, the last one shorter.
const REPAIRED: Repair = Repair { block_segments: 20, rounds: 3 };

/// Any bytes as actions of an attacker that sees all packets of an object, has its key, and sends anything. All output
/// is right; and if the right packets come then, the file becomes complete.
pub fn subscriber(data: &[u8]) {
    let mut source = Source(data);
    let (live, ordered) = (source.byte() % 4 == 0, source.byte() % 2 == 0);
    let repair = (!live && source.byte() % 2 == 0).then_some(REPAIRED);
    let content: Vec<u8> = (0..SEGMENTS * SEGMENT_BYTES as u32 - 100).map(|i| (i / 7) as u8).collect();
    let layout = Layout::of(content.len() as u64).expect("small");
    let tree = Tree::over(content.chunks(SEGMENT_BYTES).map(|c| hash(0, c)).collect());
    let name = Name::new("/weir/files/film").expect("a name");
    let manifest = Manifest {
        name: name.clone(),
        version: "0123456789abcdef".to_owned(),
        layout: (!live).then_some(layout),
        top: if live { Vec::new() } else { tree.top().to_vec() },
        publisher: [9; 32],
        repair,
        issued_s: None,
    };
    let mut names = LevelNames::new(&name, &manifest.version, 2).expect("short");
    let mut encoders = Vec::new();
    if repair.is_some() {
        names = names.with_repair().expect("short");
        let block_bytes = REPAIRED.block_segments as usize * SEGMENT_BYTES;
        encoders = content.chunks(block_bytes).map(|block| Encoder::new(block.to_vec())).collect();
    }
    let levels: &[u8] = if repair.is_some() { &[0, 1, REPAIR] } else { &[0, 1] };
    let mut insider = Insider { content: &content, tree, names: names.clone(), ring: KeyRing::new(names), encoders };
    let mut now = Instant::now();
    let begin = if live { source.near(5000) } else { 0 };
    let mut fetch =
        Fetch::new(&manifest, settings(ordered), begin, Segments::default(), now).expect("the name is short enough");
    let mut store = Checked { content: if live { &[] } else { &content }, written: Segments::default(), ordered };
    let add_key = |epoch: u16, insider: &mut Insider, fetch: &mut Fetch, store: &mut Checked, now: Instant| {
        let key = GroupKey { epoch, first_segment: 0, secret: Secret([epoch as u8; 32]) };
        insider.ring.add(key).expect("the TLS library");
        fetch.keys(&[key], now, store).expect("the TLS library");
    };
    add_key(1, &mut insider, &mut fetch, &mut store, now);
    let mut epoch = 1;
    while source.more() {
        let mut out = Vec::new();
        let level = levels[usize::from(source.byte()) % levels.len()];
        let most = if level == REPAIR { REPAIRED.number(5, 0, 2) } else { SEGMENTS + 2 };
        let item = Item { level, segment: source.near(most) };
        let name = insider.names.of(item.level).expect("its levels have names").clone();
        match source.byte() % 8 {
            what @ 0..6 => {
                let other = Item { segment: source.near(SEGMENTS), ..item };
                let content = match what {
                    0 | 1 => insider.right(item),
                    2 => insider.right(other),
                    _ => source.payload(),
                };
                let (mut header, mut payload) = insider.data(item, epoch, &content);
                match what {
                    3 => payload.truncate(usize::from(source.short())),
                    4 => header.epoch = epoch.wrapping_add(source.short() % 20),
                    5 => header.kind = Kind::Nack,
                    _ => header.lifetime = source.short(),
                }
                if header.kind == Kind::Nack {
                    header.code =
                        [nack::NO_ROUTE, nack::BUSY, nack::NO_SUCH_SEGMENT, 99][usize::from(source.byte() % 4)];
                    fetch.nack(&header, now, &mut store);
                } else {
                    header.flags = source.byte();
                    fetch.data(&header, &payload, now, &mut store);
                }
            }
            6 => fetch.overheard(&Header { holes: source.short(), ..Header::interest(&name, item.segment, 400) }, now),
            _ if source.byte() % 8 == 0 && epoch < 60 => {
                epoch += 1;
                add_key(epoch, &mut insider, &mut fetch, &mut store, now);
            }
            _ => {
                now += u32::from(source.byte()) * MS / 4;
                fetch.poll(now, &mut store, &mut out);
            }
        }
        assert!(out.len() <= 1024, "{} Interests at once", out.len());
        fetch.check_budgets();
    }
    assert!(!live || store.written.is_empty());
    if !live {
        complete(&mut fetch, &mut insider, &mut store, epoch, now);
    }
}

/// From now on every Interest is answered, and rightly.
fn complete(fetch: &mut Fetch, insider: &mut Insider, store: &mut Checked, epoch: u16, mut now: Instant) {
    let end = now + Duration::from_secs(600);
    while fetch.outcome().is_none() {
        assert!(now < end, "it goes on for ever: {fetch:?}");
        let mut out = Vec::new();
        fetch.poll(now, store, &mut out);
        now += 5 * MS;
        for header in &out {
            let level = insider.names.level(header.name).expect("its own name");
            for segment in header.segments() {
                let item = Item { level, segment };
                let content = insider.right(item);
                let (header, payload) = insider.data(item, epoch, &content);
                fetch.data(&header, &payload, now, store);
            }
        }
    }
    match fetch.outcome() {
        Some(Outcome::Complete) => assert_eq!(store.written.len(), u64::from(SEGMENTS)),
        // It believed Nacks, which it does when they come for seconds and nothing else.
        Some(Outcome::Refused(_)) => {}
        other => panic!("{other:?}"),
    }
}

/// An Interest for what one of these names has, mostly.
fn interest_of(source: &mut Source, names: &[Name], segments: u32) -> Header {
    let name = &names[usize::from(source.byte()) % names.len()];
    let mut header = Header::interest(name, source.near(segments), source.short().max(1));
    (header.flags, header.hop_limit, header.holes) = (source.byte(), source.byte(), source.short());
    if source.byte().is_multiple_of(8) {
        header.prefix = u64::from(source.byte());
    }
    header
}

/// Any bytes as packets at a cache, and waits: it gives what it was given, budgets hold, and no Interest makes many packets.
pub fn cache(data: &[u8]) {
    const MOST_BYTES: u64 = 20_000;
    let mut source = Source(data);
    let names: Vec<_> = (0..3).map(|i| Name::new(&format!("/a/~{i}")).expect("a name")).collect();
    let (mut cache, mut now) = (Cache::new(MOST_BYTES), Instant::now());
    let mut given = HashSet::new();
    while source.more() {
        let mut out = Vec::new();
        let mut send = |header: &Header, payload: &[u8]| {
            // As the face does: it panics where readers would call it malformed.
            header.bytes(payload.len());
            out.push((*header, payload.to_vec()));
        };
        let what = source.byte() % 8;
        let interest = interest_of(&mut source, &names, 80);
        match what {
            0..4 => cache.interest(&interest, now, send),
            4 | 5 => {
                let payload = source.payload();
                let header = Header { kind: Kind::Data, holes: 0, epoch: source.short(), ..interest };
                given.insert((header.prefix, header.name, header.segment, header.epoch, payload.clone()));
                cache.data(&header, &payload, now);
            }
            6 => cache.nack(&Header::nack(&interest, interest.segment, source.byte().max(1))),
            _ => {
                now += u32::from(source.short()) * MS / 16;
                cache.turn(now, &mut send);
            }
        }
        assert!(what == 7 || out.len() <= SEGMENTS_PER_INTEREST as usize, "{} packets", out.len());
        for (header, payload) in out.into_iter().filter(|(header, _)| header.kind == Kind::Data) {
            let what = (header.prefix, header.name, header.segment, header.epoch, payload);
            assert!(given.contains(&what), "nobody gave it {header:?}");
        }
        cache.check_budgets(MOST_BYTES);
    }
}

/// A file in memory.
struct Bytes(Vec<u8>);

impl Content for Bytes {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let rest = usize::try_from(offset).ok().and_then(|at| self.0.get(at..)).unwrap_or_default();
        let part = rest.get(..buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(part);
        Ok(())
    }
}

/// Any bytes as Interests at a publisher of a file and a live stream, members that come and leave, and waits: each segment
/// asked for gets one answer at most, under its own name, and no answer is malformed.
pub fn publisher(data: &[u8]) {
    let mut source = Source(data);
    let (name, mut now) = (Name::new("/weir/files").expect("a name"), Instant::now());
    let (film, radio) = (Name::new("/weir/files/film"), Name::new("/weir/files/radio"));
    let (film, radio) = (film.expect("a name"), radio.expect("a name"));
    let key = SigningKey::generate().expect("the TLS library");
    let mut drawn = 0;
    let draw = move || {
        drawn += 1;
        Ok([drawn; 32])
    };
    let mut publisher = Publisher::new(name, key, 30_000, source.byte() % 2 == 0, draw, || 1);
    let repaired = source.byte() % 2 == 0;
    if repaired {
        publisher = publisher.with_repair();
    }
    let content = Bytes(vec![7; SEGMENTS as usize * SEGMENT_BYTES - 100]);
    let mut index = Index::new(content.0.len() as u64).expect("it is small");
    while !index.step(&content, SEGMENTS).expect("it is there") {}
    let file = publisher.offer(&film, index.finish(), Box::new(content), now).expect("there is room");
    let live = publisher.offer_live(&radio, 100_000, now).expect("there is room");
    let mut names = Vec::new();
    for id in [file, live] {
        let Some(Answer::Welcome { manifest, .. }) = publisher.join(id, now) else { panic!("no answer") };
        let manifest = Manifest::parse(&manifest).expect("a manifest");
        let mut levels = LevelNames::new(&manifest.name, &manifest.version, 2).expect("short");
        if manifest.repair.is_some() {
            levels = levels.with_repair().expect("short");
        }
        names.extend(levels.iter().map(|(_, name)| name.clone()));
    }
    names.push(Name::new("/weir/files/none").expect("a name"));
    while source.more() {
        let mut out = Vec::new();
        match source.byte() % 8 {
            0 => {
                let part = vec![source.byte(); usize::from(source.short())];
                publisher.push(live, &part, now, &mut out).expect("the TLS library");
            }
            1 => {
                now += u32::from(source.short()) * MS / 16;
                publisher.flush(live, now, source.byte() == 0, &mut out).expect("the TLS library");
                publisher.rekey(now).expect("the TLS library");
            }
            2 if source.byte() % 2 == 0 => drop(publisher.join(file, now)),
            2 => publisher.leave(if source.byte() % 2 == 0 { file } else { live }),
            _ => {
                let interest = interest_of(&mut source, &names, 3 * SEGMENTS);
                publisher.interest(&interest, now, &mut out);
                let mut asked: HashSet<_> = interest.segments().collect();
                for (header, _) in &out {
                    assert_eq!(header.name, interest.name);
                    assert!(asked.remove(&header.segment), "{header:?} was not asked for, or twice");
                }
            }
        }
        for (header, payload) in &out {
            header.bytes(payload.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::object::manifest::version_of;
    use proptest::prelude::{any, prop, proptest};

    /// Valid lines of a publisher and a subscriber for an object of so many bytes.
    fn good_lines(bytes: u64) -> Vec<String> {
        let layout = Layout::of(bytes);
        let hashes = layout.map_or(0, |l| l.hashes(l.levels)) as usize;
        let name = Name::new("/weir/files/film").unwrap();
        let (version, top) = (version_of(&[3; 32]), vec![[7; 32]; hashes]);
        let manifest =
            Manifest { name, version, layout, top, publisher: [9; 32], repair: None, issued_s: None }.text().unwrap();
        let keys = vec![GroupKey { epoch: 1, first_segment: 0, secret: Secret([1; 32]) }];
        let welcome = Answer::Welcome { manifest, signature: [5; 64], begin: bytes as u32, keys: keys.clone() };
        let mut lines: Vec<_> = [welcome, Answer::Keys(keys), Answer::Error("no".to_owned())]
            .iter()
            .map(|answer| answer.line().unwrap())
            .collect();
        let (get, member, have) = ("/weir/files/film".to_owned(), Some([3; 16]), Some("0".repeat(16)));
        let request = Request { get, member, have };
        lines.push(request.line().unwrap());
        lines
    }

    proptest! {
        #[test]
        fn packets(data in prop::collection::vec(any::<u8>(), 0..200), kind in 0u8..5, length in 0u8..170) {
            let mut data = data;
            packet(&data);
            if let Some(head) = data.first_chunk_mut::<HEADER_BYTES>() {
                (head[0], head[28], head[29]) = (1 << 4 | kind, 0, length);
            }
            packet(&data);
        }

        #[test]
        fn frames(data in prop::collection::vec(any::<u8>(), 0..200), kind in 0u8..5, length in 0u8..170) {
            let mut data = data;
            frame(&data);
            if let Some(head) = data.get_mut(14..14 + HEADER_BYTES) {
                (head[0], head[28], head[29]) = (1 << 4 | kind, 0, length);
            }
            frame(&data);
        }

        #[test]
        fn ticket_keys(data in prop::collection::vec(any::<u8>(), 0..60), digits in "[0-9a-fA-F]{60,66}\n?") {
            tickets(&data);
            tickets(digits.as_bytes());
        }

        #[test]
        fn names(data in prop::collection::vec(any::<u8>(), 0..300), text in "(/[a-z.]{1,4}){1,6}") {
            name(&data);
            name(text.as_bytes());
        }

        #[test]
        fn group_lines(
            data in prop::collection::vec(any::<u8>(), 0..300),
            (at, byte, bytes) in (any::<prop::sample::Index>(), any::<u8>(), 0u64..1 << 43),
        ) {
            lines(&data);
            // Ones that are right, but for a byte.
            for line in good_lines(bytes) {
                lines(line.as_bytes());
                let mut changed = line.into_bytes();
                let at = at.index(changed.len());
                changed[at] = byte;
                lines(&changed);
            }
        }

        #[test]
        fn converters(data in prop::collection::vec(any::<u8>(), 0..3000)) {
            qvdp(&data);
        }

        #[test]
        fn caches(data in prop::collection::vec(any::<u8>(), 0..3000)) {
            cache(&data);
        }

        #[test]
        fn publishers(data in prop::collection::vec(any::<u8>(), 0..2000)) {
            publisher(&data);
        }

        #[test]
        fn subscribers(data in prop::collection::vec(any::<u8>(), 0..3000)) {
            subscriber(&data);
        }
    }
}
