// SPDX-License-Identifier: Apache-2.0
//! `weir-client`: all flows in one process, one thread, one wait per iteration.
//!
//! [`options`] has the user's options, [`connection`] is one flow, [`event_loop`] turns them all, and [`report`]
//! reports their results at the end.

mod connection;
mod event_loop;
mod max_time;
mod options;
mod output;
mod progress;
mod report;
mod sockets;
mod tls;

use crate::shared::congestion::{Congestion, congestion_controls};
use crate::shared::fault::{self, Fault, IO};
use crate::shared::options::parsed;
use crate::shared::qlog::QlogFile;
use crate::shared::random;
use crate::shared::trajectories::Trajectories;
use connection::{Context, Flow};
use event_loop::{EventLoop, INTERFACES, NETLINK, SIGNAL};
use options::Options;
use options::local_paths::RequestedPaths;
use options::target::{Families, Target, target};
use output::{OutputFile, StandardOutput};
use std::time::{Duration, Instant};
use weir_core::client::{Action, Body, Nowhere, Plan};
use weir_core::paths::SPARE_CIDS;
use weir_core::report::samples::{Side, Timebase};
use weir_core::text::printable;
use weir_core::window::Budget;
use weir_io::interfaces::{self, Monitor};
use weir_io::lines::LineWriter;
use weir_io::udp::{RecvBatch, SendBatch};
use weir_io::wait::{Signals, Waiter, moment};

/// Runs the program; `version` is for `--version`. Returns its exit code.
///
/// # Errors
/// It ends before all flows have ended, with the exit code for that.
pub fn main(version: &'static str) -> Result<u8, Fault> {
    let Some(options) = parsed::<Options>(version)? else { return Ok(0) };
    if options.list_cc {
        fault::print(&congestion_controls(options.json)?)?;
        return Ok(0);
    }
    run(&options)
}

/// One line on standard error.
fn complain(text: &str) {
    eprintln!("weir-client: {}", printable(text));
}

fn run(options: &Options) -> Result<u8, Fault> {
    let give_up_at = options.max_time.map(|t| Instant::now() + t);
    options.max_time.map(max_time::end_late).transpose().map_err(Fault::io("--max-time"))?;
    options.check()?;
    let transport = options.common.transport(vec![options.alpn])?;
    let congestion = Congestion::new(&options.common, Side::Client)?;
    congestion.note().iter().for_each(|note| complain(note));
    let requested = RequestedPaths::parse(&options.choice.paths)?;
    let waiter = Waiter::new().map_err(Fault::io("epoll"))?;
    // The monitor first: it reports changes after the list is read.
    let (monitor, interfaces) = match requested.is_empty() {
        true => (None, Vec::new()),
        false => {
            let monitor = Monitor::new().map_err(Fault::io(NETLINK))?;
            waiter.add(monitor.fd(), INTERFACES).map_err(Fault::io("epoll"))?;
            (Some(monitor), interfaces::list().map_err(Fault::io(NETLINK))?)
        }
    };
    let families = if requested.is_empty() { Families::of_bind(options.bind) } else { requested.check(&interfaces)? };
    let choice = options.choice.plan()?;
    let targets = options.urls.iter().map(|u| target(u, options, &families)).collect::<Result<Vec<_>, _>>()?;
    let flow_count = options.flow_count()?;
    let mut config = tls::config(options, &transport)?;
    if requested.is_empty() {
        // More would be for paths. quiche also issues no more than it accepts.
        config.set_active_connection_id_limit(1 + SPARE_CIDS as u64);
    }
    let stats = options.common.stats.as_deref().map(LineWriter::create).transpose()?;
    let events = options.events.as_deref().map(LineWriter::create).transpose()?;
    let signals = Signals::catch().map_err(Fault::io("signals"))?;
    waiter.add(signals.fd(), SIGNAL).map_err(Fault::io("epoll"))?;

    let (start, start_us) = moment();
    let context = Context {
        options,
        config,
        transport,
        congestion,
        trajectories: Trajectories::new(complain),
        choice,
        requested,
        interfaces,
        seed: options.choice.seed.map_or_else(|| weir_io::random::bytes().map(u64::from_ne_bytes), Ok)?,
        budget: Budget::shared(options.memory_budget_bytes()),
        waiter,
        recv: RecvBatch::new(options.common.sockets().offload),
        send: SendBatch::default(),
        scratch: vec![0; 1 << 16],
        events,
        qlogs: Vec::new(),
        timebase: Timebase::new(start, start_us),
        recv_buffer_bytes: None,
    };
    let flows = flows(options, &targets, flow_count, &context, start)?;
    let mut event_loop = EventLoop::new(context, flows, monitor, stats, give_up_at);
    let end = event_loop.run(&signals, start)?;
    let (context, flows) = event_loop.finish();
    let code = report::print(&context, &flows, start, end)?;
    context.qlogs.iter().try_for_each(QlogFile::finish)?;
    Ok(if context.trajectories.finish() || code != 0 { code } else { IO })
}

/// All flows, the targets taken in turn, each with its time to start.
fn flows(
    options: &Options,
    targets: &[Target],
    count: usize,
    context: &Context<'_>,
    start: Instant,
) -> Result<Vec<Flow>, Fault> {
    let spread = Duration::from_millis(options.start_spread_ms);
    let start_at = options.start_at_us.map(|t| context.timebase.at(t));
    let one = |(i, target): (usize, &Target)| {
        let plan = Plan {
            flow: options.flow_label.unwrap_or(0) + i as u64,
            tell_flow: options.flow_label.is_some(),
            authority: target.authority.clone(),
            path: target.path.clone(),
            action: if options.upload { Action::Upload(options.bytes) } else { Action::Download },
            tasks: options.requests,
            parallel: options.parallel as usize,
            interval: Duration::from_millis(options.interval_ms),
            start_at,
            idle_timeout: context.transport.idle_timeout,
            max_bytes: options.max_size,
            read_timeout: Some(options.read_timeout).filter(|limit| !limit.is_zero()),
        };
        let body: Box<dyn Body> = match &options.output {
            Some(_) if options.to_standard_output() => Box::new(StandardOutput::default()),
            Some(path) => Box::new(OutputFile::create(path)?),
            None => Box::new(Nowhere),
        };
        let opens = match options.open_at_us.get(i) {
            Some(t) => context.timebase.at(*t).max(start),
            None => start + spread.mul_f64(random::share()?),
        };
        Ok(Flow::new(i, target.clone(), plan, body, opens))
    };
    targets.iter().cycle().take(count).enumerate().map(one).collect()
}
