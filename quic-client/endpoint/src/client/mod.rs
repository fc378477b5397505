// SPDX-License-Identifier: Apache-2.0
//! `weir-client`: all flows in one process, one thread, one wait per iteration.
//!
//! [`options`] has the user's options, [`event_loop`] turns the flows, which are the library's, and [`report`]
//! reports their results at the end.

mod aggregate;
mod decode;
mod event_loop;
mod hooks;
mod max_time;
mod options;
mod output;
mod progress;
pub mod proxy;
mod report;

use crate::shared::congestion::{Congestion, congestion_controls};
use crate::shared::fault::{self, Fault, IO};
use crate::shared::options::parsed;
use crate::shared::qlog::QlogFile;
use crate::shared::random;
use crate::shared::trajectories::Trajectories;
use decode::{Decompressed, Included};
use event_loop::{EventLoop, SIGNAL};
use hooks::{ClientHooks, Files};
use options::Options;
use options::target::target;
use output::{OutputFile, StandardOutput};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};
use weir_core::client::{Action, Body, Nowhere, Plan, PlannedTasks, SessionConfig};
use weir_core::paths::SPARE_CIDS;
use weir_core::report::samples::{Side, Timebase};
use weir_core::text::printable;
use weir_core::transport::Transport;
use weir_core::window::Budget;
use weir_io::lines::LineWriter;
use weir_io::udp::{RecvBatch, SendBatch};
use weir_io::wait::{Signals, Waiter, moment};
use weir_quic::flow::{Context, Flow, Reactor, Settings, tls, watch_interfaces};
use weir_quic::local_paths::RequestedPaths;
use weir_quic::target::{Families, Target};

/// Runs the program; `version` is for `--version`. Returns its exit code.
///
/// # Errors
/// It ends before all flows have ended, with the exit code for that.
pub fn main(version: &'static str) -> Result<u8, Fault> {
    if let Some(line) = proxy::command_line() {
        return proxy::main(version, line);
    }
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
    let mut transport = options.common.transport(vec![options.alpn])?;
    let congestion = Congestion::new(&options.common, Side::Client)?;
    congestion.note().iter().for_each(|note| complain(note));
    let requested = RequestedPaths::parse(&options.choice.paths, "--path")?;
    let waiter = Waiter::new().map_err(Fault::io("epoll"))?;
    let (monitor, interfaces) = match requested.is_empty() {
        true => (None, Vec::new()),
        false => watch_interfaces(&waiter).map(|(monitor, list)| (Some(monitor), list))?,
    };
    let families = match requested.is_empty() {
        true => Families::of_bind(options.connection.bind, "--bind"),
        false => requested.check(&interfaces)?,
    };
    let choice = options.choice.plan()?;
    let targets = options.urls.iter().map(|u| target(u, options, &families)).collect::<Result<Vec<_>, _>>()?;
    let flow_count = options.flow_count()?;
    let paths = aggregate::paths(options, &requested, &interfaces, &targets)?;
    if !paths.is_empty() {
        aggregate::share_windows(&mut transport, paths.len());
    }
    let mut config = tls::config(options.connection.ca.as_deref(), options.connection.insecure, &transport, "--")?;
    if requested.is_empty() {
        // More would be for paths. quiche also issues no more than it accepts.
        config.set_active_connection_id_limit(1 + SPARE_CIDS as u64);
    }
    let stats = options.common.stats.as_deref().map(LineWriter::create).transpose()?;
    let events = options.events.as_deref().map(LineWriter::create).transpose()?;
    let signals = Signals::catch().map_err(Fault::io("signals"))?;
    waiter.add(signals.fd(), SIGNAL).map_err(Fault::io("epoll"))?;

    let (start, start_us) = moment();
    let timebase = Timebase::new(start, start_us);
    let files = Files { events, qlogs: Vec::new(), trajectories: Trajectories::new(complain) };
    let files = Rc::new(RefCell::new(files));
    let start_at = options.start_at_us.map(|t| timebase.at(t));
    let (flows, aggregation) = match &targets[..] {
        [target] if !paths.is_empty() => {
            let label = options.flow_label.unwrap_or(0);
            let parts =
                (plan(options, target, label, None, start_at), session_config(options, target, label, &transport));
            let (flows, aggregation) = aggregate::flows(options, target, paths, parts, start)?;
            (flows, Some(aggregation))
        }
        _ => (flows(options, &targets, flow_count, &transport, timebase, start)?, None),
    };
    let (standby, tct_limit) = (choice.standby, choice.tct_limit);
    let qlog_dir = options.common.qlog_dir.clone();
    let hooks = ClientHooks {
        congestion,
        choice,
        timebase,
        qlog_dir,
        files: Rc::clone(&files),
        open: BTreeMap::new(),
        aggregate: aggregation.as_ref().map(|a| a.download.clone()),
    };
    let context = Context {
        settings: Settings {
            transport,
            sockets: options.common.sockets(),
            ecn: options.common.ecn(),
            window: options.connection.window,
            insecure: options.connection.insecure,
            bind: options.connection.bind,
            requested,
            standby,
            seed: options.choice.seed.map_or_else(|| weir_io::random::bytes().map(u64::from_ne_bytes), Ok)?,
            prefix: "--",
        },
        config,
        hooks: Box::new(hooks),
        interfaces,
        budget: Budget::shared(options.connection.memory_budget_bytes()),
        waiter,
        recv: RecvBatch::new(options.common.sockets().offload),
        send: SendBatch::default(),
        scratch: vec![0; 1 << 16],
        timebase,
        recv_buffer_bytes: None,
    };
    let (flows, plans) = flows.into_iter().unzip::<_, _, Vec<_>, Vec<_>>();
    let mut reactor = Reactor::new(context, monitor);
    flows.into_iter().for_each(|flow| reactor.insert(flow));
    let mut event_loop = EventLoop::new(options, reactor, Rc::clone(&files), stats, give_up_at, aggregation);
    let end = event_loop.run(&signals, start)?;
    let (reactor, aggregation) = event_loop.finish();
    let (context, flows) = reactor.finish();
    let flows: Vec<_> = flows.into_iter().zip(plans).collect();
    let times = report::Times { tct_limit, start, end };
    let code = report::print(options, &context, &flows, aggregation.as_ref(), &times)?;
    let files = files.borrow();
    files.qlogs.iter().try_for_each(QlogFile::finish)?;
    Ok(if files.trajectories.finish() || code != 0 { code } else { IO })
}

/// The requests of a flow to this server.
fn plan(options: &Options, target: &Target, label: u64, data: Option<Rc<[u8]>>, start_at: Option<Instant>) -> Plan {
    Plan {
        label: options.flow_label.filter(|_| !options.local_labels).map(|_| label),
        authority: target.authority.clone(),
        path: target.path.clone(),
        action: if options.upload { Action::Upload(options.bytes.first().copied()) } else { Action::Download },
        sizes: if options.upload { Vec::new() } else { options.bytes.clone() },
        tasks: options.requests,
        parallel: options.parallel as usize,
        interval: Duration::from_millis(options.interval_ms),
        start_at,
        max_bytes: options.max_size,
        method: options.http.method.clone(),
        headers: options.http.fields(),
        data,
        redirects: options.http.redirects(),
    }
}

fn session_config(options: &Options, target: &Target, label: u64, transport: &Transport) -> SessionConfig {
    SessionConfig {
        label,
        authority: target.authority.clone(),
        idle_timeout: transport.idle_timeout,
        read_timeout: Some(options.read_timeout).filter(|limit| !limit.is_zero()),
        keeps_times: true,
    }
}

/// All flows with their plans, the targets taken in turn, each with its time to start.
fn flows(
    options: &Options,
    targets: &[Target],
    count: usize,
    transport: &Transport,
    timebase: Timebase,
    start: Instant,
) -> Result<Vec<(Flow, Plan)>, Fault> {
    let spread = Duration::from_millis(options.start_spread_ms);
    let data = options.http.body()?;
    let start_at = options.start_at_us.map(|t| timebase.at(t));
    let one = |(i, target): (usize, &Target)| {
        let label = options.flow_label.unwrap_or(0) + i as u64;
        let plan = plan(options, target, label, data.clone(), start_at);
        let config = session_config(options, target, label, transport);
        let mut body: Box<dyn Body> = match &options.output {
            Some(_) if options.to_standard_output() => Box::new(StandardOutput::default()),
            Some(path) => Box::new(OutputFile::create(path)?),
            None => Box::new(Nowhere),
        };
        // The header fields are not compressed.
        if options.http.include {
            body = Box::new(Included(body));
        }
        if options.http.compressed {
            body = Box::new(Decompressed::new(body, options.max_size));
        }
        let opens = match options.open_at_us.get(i) {
            Some(t) => timebase.at(*t).max(start),
            None => start + spread.mul_f64(random::share()?),
        };
        let tasks = PlannedTasks::new(plan.clone(), body);
        Ok((Flow::new(i, target.clone(), config, Box::new(tasks), opens), plan))
    };
    targets.iter().cycle().take(count).enumerate().map(one).collect()
}
