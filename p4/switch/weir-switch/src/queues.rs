// SPDX-License-Identifier: Apache-2.0
//! Limits of queues as an operator writes them: `2:rate=10mbit,depth=1000p`.
use crate::tm::{PortSettings, QueueSettings, TrafficManager};

/// How to write them, for messages and the help.
pub const GRAMMAR: &str = "PORT[.PRIORITY]:LIMIT[,LIMIT], where PORT is a number or `default`, and LIMIT is \
     rate=N{bit|kbit|mbit|gbit} (of the port's link), rate=Npps (of each queue), depth=Np or depth=N{B|kB|MB}";

/// One setting; what it leaves out stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSpec {
    /// `None`: every port.
    port: Option<u32>,
    /// `None`: every priority.
    priority: Option<usize>,
    rate_bps: Option<u64>,
    rate_pps: Option<u64>,
    /// Packets and bytes.
    depth: Option<(u64, u64)>,
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
    /// What is wrong with it.
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
        let mut spec = QueueSpec { port, priority, rate_bps: None, rate_pps: None, depth: None };
        for limit in limits.split(',') {
            let (key, value) = limit.split_once('=').ok_or_else(|| format!("`{limit}` has no `=`"))?;
            match key {
                "rate" if value.ends_with("pps") => spec.rate_pps = Some(number(value, &[("pps", 1)])?),
                "rate" => {
                    let units = [("bit", 1), ("kbit", 1_000), ("mbit", 1_000_000), ("gbit", 1_000_000_000)];
                    spec.rate_bps = Some(number(value, &units).map_err(|e| e + ", pps")?);
                }
                "depth" => {
                    let (packets, bytes) = spec.depth.unwrap_or((u64::MAX, u64::MAX));
                    let units = [("p", 1), ("B", 1), ("kB", 1_000), ("MB", 1_000_000)];
                    let depth = number(value, &units)?;
                    if depth == 0 {
                        return Err("a depth of 0 would drop everything".into());
                    }
                    spec.depth = Some(if value.ends_with('p') { (depth, bytes) } else { (packets, depth) });
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
    /// What is wrong with the first wrong line, with its number.
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
            }
        }
    }
}

/// Gives every queue BMv2's limits and then these, those for all ports first.
pub fn apply<T>(specs: &[QueueSpec], tm: &mut TrafficManager<T>) {
    let queues = vec![QueueSettings::default(); tm.priorities()];
    tm.set(None, &PortSettings { rate_bps: 0, queues });
    let of_all = specs.iter().filter(|s| s.port.is_none());
    for spec in of_all.chain(specs.iter().filter(|s| s.port.is_some())) {
        let mut settings = tm.settings(spec.port).clone();
        spec.change(&mut settings);
        tm.set(spec.port, &settings);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(specs: &[&str], port: u32) -> PortSettings {
        let mut tm = TrafficManager::<()>::new(2);
        let specs: Vec<_> = specs.iter().map(|s| QueueSpec::parse(s, 2).unwrap()).collect();
        apply(&specs, &mut tm);
        tm.settings(Some(port)).clone()
    }

    #[test]
    fn what_is_said_of_a_port_comes_after_what_is_said_of_all() {
        let specs = ["2:rate=10mbit,depth=1000p", "2.1:rate=500pps", "default:rate=1gbit,depth=150kB"];
        let bytes = QueueSettings { rate_pps: 0, depth_packets: u64::MAX, depth_bytes: 150_000 };
        assert_eq!(settings(&specs, 1), PortSettings { rate_bps: 1_000_000_000, queues: vec![bytes; 2] });
        let packets = QueueSettings { rate_pps: 0, depth_packets: 1000, depth_bytes: u64::MAX };
        let paced = QueueSettings { rate_pps: 500, ..packets };
        assert_eq!(settings(&specs, 2), PortSettings { rate_bps: 10_000_000, queues: vec![packets, paced] });
    }

    #[test]
    fn both_depths_hold_when_both_are_given() {
        let both = QueueSettings { rate_pps: 0, depth_packets: 20, depth_bytes: 9_000 };
        assert_eq!(settings(&["0:depth=20p,depth=9000b"], 0).queues, [both; 2]);
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
            ("2:rate=99999999999gbit", "`99999999999gbit` is not a whole number"),
        ] {
            let said = QueueSpec::parse(text, 2).unwrap_err();
            assert!(said.contains(want) && said.contains(GRAMMAR), "{text}: {said}");
        }
        let said = QueueSpec::parse_lines("# all\n\n1:depth=5p # short\nfoo", 1).unwrap_err();
        assert!(said.starts_with("line 4: queue `foo`"), "{said}");
    }
}
