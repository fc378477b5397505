// SPDX-License-Identifier: Apache-2.0
//! Limits of queues as an operator writes them: `2:rate=10mbit,depth=1000p`.
use crate::traffic_manager::{PortSettings, QueueSettings, TrafficManager};
use std::fs::OpenOptions;
use std::io::Read as _;
use std::ops::RangeInclusive;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Of a link: 1500 bytes take 1.2 s at the least of these, 9000 take 7.2.
const RATES_BPS: RangeInclusive<u64> = 10_000..=1_000_000_000_000;
const RATES_PPS: RangeInclusive<u64> = 1..=1_000_000_000;

/// Syntax of limits, for messages and the help.
pub const GRAMMAR: &str = "PORT[.PRIORITY]:LIMIT[,LIMIT], where PORT is a number or `default`, and LIMIT is \
     rate=N{bit|kbit|mbit|gbit} (of the port's link), rate=Npps (of each queue), depth=Np or depth=N{B|kB|MB}, flows (a \
     queue for each flow, by DRR++) or fifo";

/// One setting; omitted limits stay as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSpec {
    /// As it was written.
    text: String,
    /// `None`: every port.
    port: Option<u32>,
    /// `None`: every priority.
    priority: Option<usize>,
    rate_bps: Option<u64>,
    rate_pps: Option<u64>,
    /// Packets and bytes.
    depth: Option<(u64, u64)>,
    flows: Option<bool>,
}

fn number(text: &str, units: &[(&str, u64)]) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (n, unit) = text.split_at(digits);
    let scale = units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).map(|(_, scale)| *scale);
    let value = n.parse::<u64>().ok().zip(scale).and_then(|(n, scale)| n.checked_mul(scale));
    let names: Vec<_> = units.iter().map(|(name, _)| *name).collect();
    value.ok_or_else(|| format!("`{text}` is not a whole number with one of the units {}", names.join(", ")))
}

impl QueueSpec {
    /// Reads one setting for a switch of so many priorities.
    ///
    /// # Errors
    /// It does not follow [`GRAMMAR`].
    pub fn parse(text: &str, priorities: usize) -> Result<QueueSpec, String> {
        Self::read(text, priorities).map_err(|e| format!("queue `{text}`: {e}; it is {GRAMMAR}"))
    }

    fn read(text: &str, priorities: usize) -> Result<QueueSpec, String> {
        let (place, limits) = text.split_once(':').ok_or("there is no `:`")?;
        let (port, priority) = match place.split_once('.') {
            Some((port, priority)) => (port, Some(priority)),
            None => (place, None),
        };
        let port = match port {
            "default" => None,
            n => Some(n.parse().ok().filter(|n| *n <= 511).ok_or_else(|| format!("`{n}` is not a port (0 to 511)"))?),
        };
        let below = |n: &usize| *n < priorities;
        let priority = priority.map(|n| {
            let wrong = || format!("`{n}` is not a priority: there are {priorities}, from 0 (see --priority-queues)");
            n.parse().ok().filter(below).ok_or_else(wrong)
        });
        let priority = priority.transpose()?;
        let mut spec =
            QueueSpec { text: text.into(), port, priority, rate_bps: None, rate_pps: None, depth: None, flows: None };
        let positive = |n: u64, what: &str| if n == 0 { Err(what.to_string()) } else { Ok(n) };
        let once = |given: bool, what: &str| if given { Err(format!("{what} is given twice")) } else { Ok(()) };
        const STILL: &str = "a rate of 0 would send nothing; without `rate` there is no such limit";
        let within = |n: u64, range: RangeInclusive<u64>, what: &str| {
            if range.contains(&n) { Ok(n) } else { Err(format!("a rate is from {what}")) }
        };
        for limit in limits.split(',') {
            if matches!(limit, "flows" | "fifo") {
                once(spec.flows.is_some(), "the order of packets")?;
                spec.flows = Some(limit == "flows");
                continue;
            }
            let (key, value) = limit.split_once('=').ok_or_else(|| format!("`{limit}` has no `=`"))?;
            match key {
                "rate" if value.ends_with("pps") => {
                    once(spec.rate_pps.is_some(), "rate in packets/s")?;
                    let rate_pps = positive(number(value, &[("pps", 1)])?, STILL)?;
                    spec.rate_pps = Some(within(rate_pps, RATES_PPS, "1pps to 1000000000pps")?);
                }
                "rate" => {
                    once(spec.rate_bps.is_some(), "rate in bit/s")?;
                    let units = [("bit", 1), ("kbit", 1_000), ("mbit", 1_000_000), ("gbit", 1_000_000_000)];
                    let rate_bps = number(value, &units).map_err(|e| e + ", pps")?;
                    spec.rate_bps = Some(within(positive(rate_bps, STILL)?, RATES_BPS, "10kbit to 1000gbit")?);
                }
                "depth" => {
                    let (packets, bytes) = spec.depth.unwrap_or((u64::MAX, u64::MAX));
                    let units = [("p", 1), ("B", 1), ("kB", 1_000), ("MB", 1_000_000)];
                    let depth = positive(number(value, &units)?, "a depth of 0 would drop everything")?;
                    spec.depth = Some(if value.ends_with('p') {
                        once(packets != u64::MAX, "depth in packets")?;
                        (depth, bytes)
                    } else {
                        once(bytes != u64::MAX, "depth in bytes")?;
                        (packets, depth)
                    });
                }
                _ => return Err(format!("`{key}` is not a limit")),
            }
        }
        if spec.priority.is_some() && spec.rate_bps.is_some() {
            return Err("a rate in bit/s is the whole port's: leave the priority out".into());
        }
        Ok(spec)
    }

    /// Reads a file of settings: one a line, `#` begins a comment.
    ///
    /// # Errors
    /// The first invalid line, with its number.
    pub fn parse_lines(text: &str, priorities: usize) -> Result<Vec<QueueSpec>, String> {
        let lines = text.lines().enumerate().map(|(i, line)| (i + 1, line.split('#').next().unwrap_or("").trim()));
        let lines = lines.filter(|(_, line)| !line.is_empty());
        lines.map(|(n, line)| Self::parse(line, priorities).map_err(|e| format!("line {n}: {e}"))).collect()
    }

    fn change(&self, settings: &mut PortSettings) {
        settings.rate_bps = self.rate_bps.unwrap_or(settings.rate_bps);
        for (priority, q) in settings.queues.iter_mut().enumerate() {
            if self.priority.is_none_or(|p| p == priority) {
                q.rate_pps = self.rate_pps.unwrap_or(q.rate_pps);
                (q.depth_packets, q.depth_bytes) = self.depth.unwrap_or((q.depth_packets, q.depth_bytes));
                q.flows = self.flows.unwrap_or(q.flows);
            }
        }
    }
}

/// Sees whether settings are for ports that there are, and none contradicts another.
///
/// # Errors
/// The first invalid setting.
pub fn check(specs: &[QueueSpec], ports: &[u32]) -> Result<(), String> {
    for (i, spec) in specs.iter().enumerate() {
        if let Some(port) = spec.port.filter(|p| !ports.contains(p)) {
            let list = ports.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
            let there = if ports.is_empty() { "no port".into() } else { format!("only {list}") };
            return Err(format!("queue `{}`: port {port} has no interface; there is {there} (see -i)", spec.text));
        }
        let place = |s: &QueueSpec| (s.port, s.priority);
        let limits = |s: &QueueSpec| [s.rate_bps.is_some(), s.rate_pps.is_some(), s.depth.is_some(), s.flows.is_some()];
        let clashes = |s: &&QueueSpec| {
            place(s) == place(spec) && limits(s).iter().zip(limits(spec)).any(|(theirs, ours)| *theirs && ours)
        };
        if let Some(other) = specs[..i].iter().find(clashes) {
            return Err(format!("queue `{}`: `{}` has said it already; leave one out", spec.text, other.text));
        }
    }
    Ok(())
}

/// Gives every queue BMv2's limits and then these, the more general ones first. `default` is about the ports that there
/// are: packets that go through the switch again by a port without an interface takes no time on a line.
pub fn apply<T>(specs: &[QueueSpec], ports: &[u32], tm: &mut TrafficManager<T>, now_ns: u64) {
    let mut specs: Vec<_> = specs.iter().collect();
    specs.sort_by_key(|s| (s.port.is_some(), s.priority.is_some()));
    let queues = vec![QueueSettings::default(); tm.priorities()];
    let settings = |port: Option<u32>| {
        let mut settings = PortSettings { rate_bps: 0, queues: queues.clone() };
        let is_there = port.is_some_and(|p| ports.contains(&p));
        let of_port = |s: &&&QueueSpec| is_there && (s.port.is_none() || s.port == port);
        specs.iter().filter(of_port).for_each(|s| s.change(&mut settings));
        settings
    };
    tm.set_all(settings, ports.iter().copied(), now_ns);
}

/// The largest file of limits.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Reads a file of limits. It must be a regular one: a pipe could block the reader for ever.
///
/// # Errors
/// The file can't be read, or its first invalid line.
pub fn read_file(path: &Path, priorities: usize) -> Result<Vec<QueueSpec>, String> {
    let told = |e: String| format!("{}: {e}", path.display());
    // Without NONBLOCK, opening a pipe waits for a writer.
    let open = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path);
    let file = open.map_err(|e| told(e.to_string()))?;
    let kind = file.metadata().map_err(|e| told(e.to_string()))?.file_type();
    if !kind.is_file() {
        return Err(told("is not a regular file, such as limits of queues are read from".into()));
    }
    let mut text = String::new();
    file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text).map_err(|e| told(e.to_string()))?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(told(format!("has more than {MAX_FILE_BYTES} bytes")));
    }
    QueueSpec::parse_lines(&text, priorities).map_err(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(specs: &[&str], port: u32) -> PortSettings {
        let mut tm = TrafficManager::<()>::new(2);
        let specs: Vec<_> = specs.iter().map(|s| QueueSpec::parse(s, 2).unwrap()).collect();
        apply(&specs, &[0, 1, 2], &mut tm, 0);
        tm.settings(Some(port)).clone()
    }

    #[test]
    fn default_is_not_about_ports_without_an_interface() {
        let bmv2 = PortSettings { rate_bps: 0, queues: vec![QueueSettings::default(); 2] };
        assert_eq!(settings(&["default:rate=10mbit,depth=5p"], 510), bmv2);
    }

    #[test]
    fn what_is_said_of_a_port_comes_after_what_is_said_of_all() {
        let specs = [
            "2.1:rate=500pps",
            "2:rate=10mbit,depth=1000p",
            "2.0:rate=9pps",
            "2:rate=8pps",
            "default:rate=1gbit,depth=150kB",
        ];
        let bytes = QueueSettings { rate_pps: 0, depth_packets: u64::MAX, depth_bytes: 150_000, flows: false };
        assert_eq!(settings(&specs, 1), PortSettings { rate_bps: 1_000_000_000, queues: vec![bytes; 2] });
        let packets = QueueSettings { rate_pps: 0, depth_packets: 1000, depth_bytes: u64::MAX, flows: false };
        let paced = |rate_pps| QueueSettings { rate_pps, ..packets };
        assert_eq!(settings(&specs, 2), PortSettings { rate_bps: 10_000_000, queues: vec![paced(9), paced(500)] });
    }

    #[test]
    fn both_depths_hold_when_both_are_given() {
        let both = QueueSettings { rate_pps: 0, depth_packets: 20, depth_bytes: 9_000, flows: false };
        assert_eq!(settings(&["0:depth=20p,depth=9000b"], 0).queues, [both; 2]);
    }

    #[test]
    fn flows_are_of_a_port_or_of_a_priority() {
        let flows = |specs: &[&str], port| settings(specs, port).queues.iter().map(|q| q.flows).collect::<Vec<_>>();
        assert_eq!(flows(&["1:rate=1mbit"], 1), [false, false]);
        assert_eq!(flows(&["1:rate=1mbit,flows"], 1), [true, true]);
        assert_eq!(flows(&["1.0:flows"], 1), [true, false]);
        assert_eq!(flows(&["default:flows", "1:fifo", "1.1:flows"], 1), [false, true]);
        assert_eq!(flows(&["default:flows", "1:fifo"], 2), [true, true]);
    }

    #[test]
    fn a_mistake_is_named_with_what_would_be_right() {
        for (text, want) in [
            ("2", "there is no `:`"),
            ("x:rate=1mbit", "`x` is not a port (0 to 511)"),
            ("512:rate=1mbit", "`512` is not a port (0 to 511)"),
            ("2.2:depth=1p", "`2` is not a priority: there are 2, from 0 (see --priority-queues)"),
            ("2:rate=1.5mbit", "`1.5mbit` is not a whole number with one of the units bit, kbit, mbit, gbit, pps"),
            ("2:rate=10", "`10` is not a whole number"),
            ("2:depth=0p", "a depth of 0 would drop everything"),
            ("2:delay=1ms", "`delay` is not a limit"),
            ("2.1:rate=1mbit", "a rate in bit/s is the whole port's: leave the priority out"),
            ("2:rate=0bit", "a rate of 0 would send nothing"),
            ("2:rate=0pps", "a rate of 0 would send nothing"),
            ("2:rate=1bit", "a rate is from 10kbit to 1000gbit"),
            ("2:rate=9999bit", "a rate is from 10kbit to 1000gbit"),
            ("2:rate=1001gbit", "a rate is from 10kbit to 1000gbit"),
            ("2:rate=1000000001pps", "a rate is from 1pps to 1000000000pps"),
            ("2:rate=1mbit,rate=2mbit", "rate in bit/s is given twice"),
            ("2:rate=1pps,rate=1pps", "rate in packets/s is given twice"),
            ("2:depth=1p,depth=2p", "depth in packets is given twice"),
            ("2:depth=1kB,depth=2MB", "depth in bytes is given twice"),
            ("2:flows,fifo", "the order of packets is given twice"),
            ("2:flows=1", "`flows` is not a limit"),
            ("2:rate=99999999999gbit", "`99999999999gbit` is not a whole number"),
        ] {
            let said = QueueSpec::parse(text, 2).unwrap_err();
            assert!(said.contains(want) && said.contains(GRAMMAR), "{text}: {said}");
        }
        let said = QueueSpec::parse_lines("# all\n\n1:depth=5p # short\nfoo", 1).unwrap_err();
        assert!(said.starts_with("line 4: queue `foo`"), "{said}");
    }

    #[test]
    fn a_file_is_a_regular_one_of_a_sensible_size() {
        let folder = std::env::temp_dir().join(format!("weir-queues-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let said = |name: &str| read_file(&folder.join(name), 1).map_err(|e| e.split_once(": ").unwrap().1.to_string());
        std::fs::write(folder.join("good"), "1:depth=5p\n").unwrap();
        assert_eq!(said("good").unwrap().len(), 1);
        assert_eq!(said("none"), Err("No such file or directory (os error 2)".into()));
        assert!(said(".").unwrap_err().contains("is not a regular file"));
        std::fs::write(folder.join("large"), vec![b'\n'; MAX_FILE_BYTES as usize + 1]).unwrap();
        assert_eq!(said("large"), Err("has more than 1048576 bytes".into()));
        // Nobody will ever write to it.
        let pipe = folder.join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert!(said("pipe").unwrap_err().contains("is not a regular file"));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn settings_that_contradict_or_have_no_port_are_refused() {
        let said = |specs: &[&str]| {
            let specs: Vec<_> = specs.iter().map(|s| QueueSpec::parse(s, 2).unwrap()).collect();
            check(&specs, &[1, 2])
        };
        assert_eq!(said(&["1:rate=1mbit,rate=5pps", "1:depth=2p", "1.0:depth=3p", "default:depth=9p"]), Ok(()));
        let twice = "queue `1:depth=3p,rate=1pps`: `1:depth=2p` has said it already; leave one out";
        assert_eq!(said(&["1:rate=1mbit", "1:depth=2p", "1:depth=3p,rate=1pps"]), Err(twice.into()));
        let none = "queue `7:depth=2p`: port 7 has no interface; there is only 1, 2 (see -i)";
        assert_eq!(said(&["default:depth=5p", "7:depth=2p"]), Err(none.into()));
        let specs = [QueueSpec::parse("1:depth=2p", 1).unwrap()];
        assert!(check(&specs, &[]).unwrap_err().contains("there is no port"));
    }
}
