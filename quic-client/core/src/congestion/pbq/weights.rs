// SPDX-License-Identifier: Apache-2.0
//! [`Weights`]: a weights file (docs/design/pbq-weights-format.md), checked as a whole before anything uses it.

use super::fairness::Fairness;
use super::guard::Rows;
use super::network::{MOST_UNITS, Network, Output};
use super::noise::Deviation;
use super::quantities::{Measured, QUANTITIES, Quantity};
use super::rtt_probe::Probing;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

/// The most that a file may have, in bytes.
pub const MOST_BYTES: usize = 1 << 20;
/// The least window that may be a bound (RFC 9002 7.2), and the greatest (quiche's BBR's limit), in packets.
const WINDOW_PACKETS: (u32, u32) = (2, 20_000);
const MAGIC: &str = "weir-pbq-weights";
const VERSION: &str = "1";

/// Set of rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// The paper to the letter.
    Paper,
    /// Ours.
    Own,
}

impl Profile {
    /// As in `--cc` and in a weights file.
    pub const fn name(self) -> &'static str {
        match self {
            Profile::Paper => "pbq-paper",
            Profile::Own => "pbq",
        }
    }
}

/// Why a weights file is refused. Each gives fault, place and the right form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WeightsError {
    /// It has another first line.
    #[error("not a weights file: it must begin with '{MAGIC} {VERSION} sha256:' and 64 hexadecimal digits")]
    NotWeights,
    /// It is of another version.
    #[error("weights of version '{0}', expected {VERSION}: make them again with this version of Weir")]
    Version(String),
    /// It is larger than any that can be used.
    #[error("{0} bytes, expected at most {MOST_BYTES}")]
    TooLarge(usize),
    /// It is not the file that was written.
    #[error("checksum: the first line says {said}, its content has {found}: it is truncated or was changed")]
    Checksum {
        /// By the first line.
        said: String,
        /// By the content.
        found: String,
    },
    /// Its content is no JSON, or lacks a member, or has an unknown one.
    #[error("content: {0}")]
    Syntax(String),
    /// A member's value can't be used.
    #[error("{0}")]
    Value(String),
}

fn value(text: impl Into<String>) -> WeightsError {
    WeightsError::Value(text.into())
}

/// Owner of the pacing rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pacing {
    /// BBR.
    Bbr,
    /// The window, spread over a round trip (RFC 9002 7.7). Ours.
    Window,
    /// Nobody: packets leave as the window allows.
    None,
}

/// When the policy begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// At once, from the transport's initial window.
    InitialWindow,
    /// When BBR's startup is over.
    AfterStartup,
}

/// When a window may grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Growth {
    /// Whenever the policy says so.
    Always,
    /// If half of it was in flight (RFC 9002 7.8); and it may shrink unless the application ran out of data.
    WhenUsed,
    /// The first half of that alone.
    WhenFilled,
    /// The second half of that alone: it grows whenever the policy says so.
    UnlessDry,
}

impl Growth {
    /// A window of which less than half was ever in flight does not grow.
    pub fn needs_use(self) -> bool {
        matches!(self, Growth::WhenUsed | Growth::WhenFilled)
    }

    /// A window does not shrink because the application ran out of data.
    pub fn stays_when_dry(self) -> bool {
        matches!(self, Growth::WhenUsed | Growth::UnlessDry)
    }
}

/// Origin of a weights file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// The project's commit.
    pub commit: String,
    /// The training's seed.
    pub seed: u64,
    /// The command.
    pub command: String,
    /// Number of decisions in the training.
    pub steps: u64,
}

/// The JSON of a file, as it stands there.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    profile: String,
    interval_ms: f64,
    interval_least_rtts: f64,
    inputs: Vec<String>,
    history: u32,
    memory_intervals: u32,
    normalisation: Normalisation,
    layers: Vec<LayerText>,
    output: OutputText,
    log_deviation: f64,
    #[serde(default)]
    noise_correlation: f64,
    action_bound: f64,
    window_packets: [u32; 2],
    pacing: Pacing,
    start: Start,
    growth: Growth,
    fairness: Option<FairnessText>,
    guard: Option<GuardText>,
    rtt_probe: Option<RttProbeText>,
    #[serde(default)]
    competing: bool,
    #[serde(default)]
    ramp: bool,
    ranges: BTreeMap<String, [f64; 2]>,
    provenance: Provenance,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Normalisation {
    shift: Vec<f64>,
    scale: Vec<f64>,
    clip: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LayerText {
    weights: Vec<String>,
    bias: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum OutputText {
    Tanh,
    Linear,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FairnessText {
    most: f64,
    window_packets: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GuardText {
    after: u32,
    back_after: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RttProbeText {
    after_s: f64,
    intervals: u32,
    share: f64,
}

/// A policy: its network, and how it is to be used.
#[derive(Debug, Clone, PartialEq)]
pub struct Weights {
    /// SHA-256 of the content, in hexadecimal digits: by this the file is known in trajectories.
    pub sha256: String,
    /// Set of rules.
    pub profile: Profile,
    /// Nominal length of an interval.
    pub interval: Duration,
    /// An interval lasts so many of the least round-trip time, if that is more.
    pub interval_least_rtts: f64,
    /// The inputs of one interval.
    pub inputs: Vec<Quantity>,
    /// So many intervals make a state.
    pub history: usize,
    /// Greatest rate and least round-trip time are over so many intervals; 0: all.
    pub memory_intervals: usize,
    /// The network. It takes the inputs of `history` intervals, oldest first.
    pub network: Network,
    /// Deviation of exploring actions from the mean.
    pub deviation: Deviation,
    /// The action is at most this and at least its negative (Eq. 4's exponent).
    pub action_bound: f64,
    /// Bounds of the window, in packets.
    pub window_packets: RangeInclusive<usize>,
    /// Owner of the pacing rate.
    pub pacing: Pacing,
    /// When the policy begins.
    pub start: Start,
    /// When a window may grow.
    pub growth: Growth,
    /// The step after the policy; `None`: there is none.
    pub fairness: Option<Fairness>,
    /// When BBR takes over; `None`: never.
    pub guard: Option<Rows>,
    /// When the least round-trip time is looked for; `None`: never.
    pub rtt_probe: Option<Probing>,
    /// Whether it shares as CUBIC beside flows that fill the queue.
    pub competing: bool,
    /// Whether the window grows by factors while there is no queue.
    pub ramp: bool,
    /// Origin of the file.
    pub provenance: Provenance,
    /// Shift and scale of each input.
    normalisation: Vec<(f64, f64)>,
    clip: f64,
    /// Ranges of these quantities in the training.
    ranges: Vec<(Quantity, RangeInclusive<f64>)>,
}

impl Weights {
    /// Reads a file, which must be of this profile.
    ///
    /// # Errors
    /// Anything that does not fit.
    pub fn read(bytes: &[u8], profile: Profile) -> Result<Weights, WeightsError> {
        if bytes.len() > MOST_BYTES {
            return Err(WeightsError::TooLarge(bytes.len()));
        }
        let end = bytes.iter().position(|byte| *byte == b'\n').ok_or(WeightsError::NotWeights)?;
        let first = std::str::from_utf8(&bytes[..end]).map_err(|_| WeightsError::NotWeights)?;
        let content = &bytes[end + 1..];
        let (version, said) = first
            .strip_prefix(MAGIC)
            .and_then(|rest| rest.strip_prefix(' ')?.split_once(' '))
            .ok_or(WeightsError::NotWeights)?;
        if version != VERSION {
            return Err(WeightsError::Version(version.chars().take(20).collect()));
        }
        let said = said.strip_prefix("sha256:").filter(|said| is_hex(said, 64)).ok_or(WeightsError::NotWeights)?;
        let found: String = boring::sha::sha256(content).iter().map(|byte| format!("{byte:02x}")).collect();
        if found != said {
            return Err(WeightsError::Checksum { said: said.to_owned(), found });
        }
        let document = serde_json::from_slice(content).map_err(|e| WeightsError::Syntax(e.to_string()))?;
        Weights::check(document, found, profile)
    }

    fn check(document: Document, sha256: String, profile: Profile) -> Result<Weights, WeightsError> {
        if document.profile != profile.name() {
            let text =
                format!("profile: '{}', expected '{}', the congestion control's", document.profile, profile.name());
            return Err(value(text));
        }
        if profile == Profile::Paper {
            let own = [
                (document.action_bound != 1.0, "action_bound: expected 1"),
                (document.start != Start::InitialWindow, "start: expected 'initial-window'"),
                (document.growth != Growth::Always, "growth: expected 'always'"),
                (document.pacing == Pacing::Window, "pacing: expected 'bbr' or 'none'"),
                (document.fairness.is_some(), "fairness: expected null"),
                (document.guard.is_some(), "guard: expected null"),
                (document.rtt_probe.is_some(), "rtt_probe: expected null"),
                (document.competing, "competing: expected false"),
                (document.ramp, "ramp: expected false"),
                (document.interval_least_rtts != 0.0, "interval_least_rtts: expected 0"),
                (document.noise_correlation != 0.0, "noise_correlation: expected 0"),
            ];
            if let Some((_, what)) = own.iter().find(|(wrong, _)| *wrong) {
                return Err(value(format!("{what} in a file of profile '{}'", profile.name())));
            }
        }
        let inputs = inputs(&document.inputs)?;
        let history = within("history", document.history, 1..=16)? as usize;
        let state = inputs.len() * history;
        if state > MOST_UNITS {
            return Err(value(format!(
                "inputs and history: {state} numbers in a state, expected at most {MOST_UNITS}"
            )));
        }
        let (normalisation, clip) = document.normalisation.read(inputs.len())?;
        let guard = document.guard.map(|guard| -> Result<Rows, WeightsError> {
            let after = within("guard.after", guard.after, 1..=1000)?;
            Ok(Rows { after, back_after: within("guard.back_after", guard.back_after, 1..=1000)? })
        });
        let rtt_probe = document.rtt_probe.map(|probe| -> Result<Probing, WeightsError> {
            Ok(Probing {
                after: Duration::from_secs_f64(single("rtt_probe.after_s", probe.after_s, 0.1..=1000.0)?),
                intervals: within("rtt_probe.intervals", probe.intervals, 1..=100)?,
                share: single("rtt_probe.share", probe.share, LEAST..=1.0)?,
            })
        });
        let action_bound = single("action_bound", document.action_bound, LEAST..=1.0)?;
        let fairness = document.fairness.map(|fairness| fairness.read(action_bound)).transpose()?;
        let interval_ms = single("interval_ms", document.interval_ms, 10.0..=10_000.0)?;
        Ok(Weights {
            sha256,
            profile,
            interval: Duration::from_micros((interval_ms * 1000.0) as u64),
            interval_least_rtts: single("interval_least_rtts", document.interval_least_rtts, 0.0..=8.0)?,
            inputs,
            history,
            memory_intervals: within("memory_intervals", document.memory_intervals, 0..=1000)? as usize,
            network: network(document.layers, state, &document.output)?,
            deviation: Deviation::from_log(
                single("log_deviation", document.log_deviation, -20.0..=5.0)?,
                single("noise_correlation", document.noise_correlation, 0.0..=0.999)?,
            ),
            action_bound,
            window_packets: window_packets(document.window_packets)?,
            pacing: document.pacing,
            start: document.start,
            growth: document.growth,
            fairness,
            guard: guard.transpose()?,
            rtt_probe: rtt_probe.transpose()?,
            competing: document.competing,
            ramp: document.ramp,
            provenance: document.provenance,
            normalisation,
            clip,
            ranges: ranges(&document.ranges)?,
        })
    }

    /// The inputs of one interval: shifted, scaled and cut.
    pub fn normalised(&self, measured: &Measured) -> Vec<f64> {
        let one = |(quantity, (shift, scale)): (&Quantity, &(f64, f64))| {
            // A NaN stays one.
            ((quantity.of(measured) - shift) * scale).clamp(-self.clip, self.clip)
        };
        self.inputs.iter().zip(&self.normalisation).map(one).collect()
    }

    /// A quantity that is out of the range of the training by more than a factor of `margin`, by its name; the first if
    /// there are several.
    pub fn outside(&self, measured: &Measured, margin: f64) -> Option<&'static str> {
        let outside = |(quantity, range): &&(Quantity, RangeInclusive<f64>)| {
            let number = quantity.of(measured);
            // A NaN is outside too.
            let (least, most) = (farther(-range.start(), margin), farther(*range.end(), margin));
            !(-number <= least && number <= most)
        };
        self.ranges.iter().find(outside).map(|(quantity, _)| quantity.name)
    }
}

/// A bound that numbers must not exceed, by a factor of `margin` farther out.
fn farther(bound: f64, margin: f64) -> f64 {
    if bound > 0.0 { bound * margin } else { bound / margin }
}

fn window_packets([least, most]: [u32; 2]) -> Result<RangeInclusive<usize>, WeightsError> {
    let (lowest, highest) = WINDOW_PACKETS;
    let least = within("window_packets[0]", least, lowest..=highest)?;
    let most = within("window_packets[1]", most, least..=highest)?;
    Ok(least as usize..=most as usize)
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn within(what: &str, number: u32, range: RangeInclusive<u32>) -> Result<u32, WeightsError> {
    match range.contains(&number) {
        true => Ok(number),
        false => Err(value(format!("{what}: {number}, expected {} to {}", range.start(), range.end()))),
    }
}

/// Numbers are read as IEEE singles, so that it does not matter how many digits were written.
fn single(what: &str, number: f64, range: RangeInclusive<f64>) -> Result<f64, WeightsError> {
    let number = finite(what, number)?;
    match range.contains(&number) {
        true => Ok(number),
        false => Err(value(format!("{what}: {number}, expected {} to {}", range.start(), range.end()))),
    }
}

fn finite(what: &str, number: f64) -> Result<f64, WeightsError> {
    let number = f64::from(number as f32);
    match number.is_finite() {
        true => Ok(number),
        false => Err(value(format!("{what}: {number}, expected what an IEEE single can hold"))),
    }
}

const LEAST: f64 = f32::MIN_POSITIVE as f64;

fn inputs(names: &[String]) -> Result<Vec<Quantity>, WeightsError> {
    if !(1..=QUANTITIES.len()).contains(&names.len()) {
        return Err(value(format!("inputs: {} names, expected 1 to {}", names.len(), QUANTITIES.len())));
    }
    if let Some(name) = names.iter().enumerate().find(|(n, name)| names[..*n].contains(name)).map(|(_, name)| name) {
        return Err(value(format!("inputs: '{name}' twice, expected each name once")));
    }
    names.iter().map(|name| Quantity::named(name).map_err(|e| value(format!("inputs: {e}")))).collect()
}

fn ranges(ranges: &BTreeMap<String, [f64; 2]>) -> Result<Vec<(Quantity, RangeInclusive<f64>)>, WeightsError> {
    let one = |(name, [least, greatest]): (&String, &[f64; 2])| {
        let quantity = Quantity::named(name).map_err(|e| value(format!("ranges: {e}")))?;
        let what = format!("ranges.{name}");
        let (least, greatest) = (finite(&what, *least)?, finite(&what, *greatest)?);
        if least > greatest {
            return Err(value(format!("{what}: [{least}, {greatest}], expected the least number first")));
        }
        Ok((quantity, least..=greatest))
    };
    ranges.iter().map(one).collect()
}

impl FairnessText {
    fn read(&self, action_bound: f64) -> Result<Fairness, WeightsError> {
        // With more the policy could not shrink a small window.
        let most = single("fairness.most", self.most, LEAST..=action_bound / 2.0)?;
        Ok(Fairness { most, window_packets: single("fairness.window_packets", self.window_packets, 1.0..=1e4)? })
    }
}

impl Normalisation {
    fn read(&self, inputs: usize) -> Result<(Vec<(f64, f64)>, f64), WeightsError> {
        for (what, numbers) in [("shift", &self.shift), ("scale", &self.scale)] {
            if numbers.len() != inputs {
                let text = format!("normalisation.{what}: {} numbers, expected {inputs}, one an input", numbers.len());
                return Err(value(text));
            }
        }
        let one = |(shift, scale): (&f64, &f64)| {
            Ok((finite("normalisation.shift", *shift)?, finite("normalisation.scale", *scale)?))
        };
        let clip = single("normalisation.clip", self.clip, LEAST..=1e6)?;
        Ok((self.shift.iter().zip(&self.scale).map(one).collect::<Result<_, _>>()?, clip))
    }
}

fn network(layers: Vec<LayerText>, inputs: usize, output: &OutputText) -> Result<Network, WeightsError> {
    if !(1..=4).contains(&layers.len()) {
        return Err(value(format!("layers: {}, expected 1 to 4", layers.len())));
    }
    let output = match output {
        OutputText::Tanh => Output::Tanh,
        OutputText::Linear => Output::Linear,
    };
    let one = |(n, layer): (usize, LayerText)| -> Result<(Vec<Vec<f32>>, Vec<f32>), WeightsError> {
        let row = |(unit, text): (usize, &String)| {
            singles(text).ok_or_else(|| value(format!("layers[{n}].weights[{unit}]: {HEX}")))
        };
        let rows = layer.weights.iter().enumerate().map(row).collect::<Result<_, _>>()?;
        Ok((rows, singles(&layer.bias).ok_or_else(|| value(format!("layers[{n}].bias: {HEX}")))?))
    };
    let layers = layers.into_iter().enumerate().map(one).collect::<Result<_, _>>()?;
    Network::new(inputs, layers, output).map_err(value)
}

const HEX: &str = "not hexadecimal digits, expected 8 for each number";

/// Numbers out of 8 hexadecimal digits each, the bits of an IEEE single.
fn singles(text: &str) -> Option<Vec<f32>> {
    if !is_hex(text, text.len()) || !text.len().is_multiple_of(8) {
        return None;
    }
    let one = |at: usize| u32::from_str_radix(&text[at..at + 8], 16).ok().map(f32::from_bits);
    (0..text.len()).step_by(8).map(one).collect()
}
