// SPDX-License-Identifier: Apache-2.0
//! The `weir-switch` command.
use clap::error::ErrorKind;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use tracing::level_filters::LevelFilter;
use weir_p4::p4info::Format;
use weir_p4::source;
use weir_switch::bmv2_options::{JSON_VERSION, Role};
use weir_switch::device::{Config, Device};
use weir_switch::options::{Level, Options};
use weir_switch::p4runtime::{self, Access, Audit, Control, InitialPipeline, Pem, ServeConfig, Tls};
use weir_switch::packet_loop::{Clock, Loop, QueueConfig};
use weir_switch::ports::Ports;
use weir_switch::trace::TraceWriter;
use weir_switch::{files, handle, links, queues, statistics, system, thrift};

/// Version, with the commit of the sources where the build names it.
const VERSION: &str = match option_env!("WEIR_BUILD") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

fn main() -> ExitCode {
    system::limit_free_memory();
    let role = std::env::args_os().next().map(|program| Role::of(&program)).unwrap_or_default();
    let name = role.name();
    let options = match Options::read(std::env::args_os()) {
        Ok(options) if options.bmv2.json_version => {
            return printed(name, print(format!("{JSON_VERSION}\n").as_bytes()));
        }
        Ok(Options { install_links: Some(folder), .. }) => return printed(name, install_links(&folder)),
        Ok(options) => options,
        Err(e) if e.use_stderr() => {
            let text = e.to_string();
            eprint!("{name}: {}", text.strip_prefix("error: ").unwrap_or(&text));
            return ExitCode::from(2);
        }
        Err(e) => {
            return printed(
                name,
                match e.kind() {
                    ErrorKind::DisplayVersion => print(role.version(VERSION).as_bytes()),
                    _ => e.print().map_err(|e| format!("standard output: {e}")).and_then(|()| print(&[])),
                },
            );
        }
    };
    options.warnings.iter().for_each(|warning| eprintln!("{name}: warning: {warning}"));
    match run(&options) {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Program(diagnostics)) => eprintln!("{}", diagnostics.trim_end()),
        Err(Failure::Switch(e)) => eprintln!("{name}: {}", e.trim_end()),
    }
    ExitCode::FAILURE
}

fn install_links(folder: &Path) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|e| format!("this program: {e}"))?;
    links::install(folder, program.parent().unwrap_or(Path::new("/"))).map_err(|e| format!("--install-links: {e}"))?;
    print(format!("{}: put it in front of PATH\n", folder.display()).as_bytes())
}

/// Exit status of a command that only prints.
fn printed(name: &str, result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{name}: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Writes to standard output, now: an error at its end would be lost.
fn print(bytes: &[u8]) -> Result<(), String> {
    let mut out = std::io::stdout();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(|e| format!("standard output: {e}"))
}

enum Failure {
    /// Errors of the compiler, which begin with file, line and column.
    Program(String),
    Switch(String),
}

impl From<String> for Failure {
    fn from(e: String) -> Failure {
        Failure::Switch(e)
    }
}

fn log(options: &Options) -> Result<(), String> {
    let more = options.log_console || options.log_file.is_some();
    let level = match options.log_level.unwrap_or(if more { Level::Info } else { Level::Warn }) {
        Level::Trace => LevelFilter::TRACE,
        Level::Debug => LevelFilter::DEBUG,
        Level::Info => LevelFilter::INFO,
        Level::Warn => LevelFilter::WARN,
        Level::Error => LevelFilter::ERROR,
        Level::Off => LevelFilter::OFF,
    };
    let builder = tracing_subscriber::fmt().with_max_level(level).with_ansi(false);
    match &options.log_file {
        // BMv2's users redirect standard output.
        None if options.role.is_bmv2() => builder.with_writer(std::io::stdout).init(),
        None => builder.with_writer(std::io::stderr).init(),
        Some(path) => {
            let file = files::create(path)
                .map_err(|e| format!("--log-file {}: {}", path.display(), source::explain(path, &e)))?;
            builder.with_writer(Mutex::new(file)).init();
        }
    }
    Ok(())
}

/// The program and its text.
struct Source {
    program: Arc<weir_p4::bytecode::program::Program>,
    text: String,
}

fn text_of(path: &Path, word: &str) -> Result<String, Failure> {
    let bytes = source::read(path).map_err(|e| format!("{word}: {e}"))?;
    if weir_p4::p4info::is_p4info(&bytes) {
        return Err(format!("{word}: {}", weir_p4::p4info::NO_PROGRAM).into());
    }
    String::from_utf8(bytes).map_err(|e| {
        let (before, rest) = e.as_bytes().split_at(e.utf8_error().valid_up_to());
        let line = 1 + before.iter().filter(|b| **b == b'\n').count();
        let column = 1 + before.iter().rev().take_while(|b| **b != b'\n').count();
        let byte = rest.first().copied().unwrap_or(0);
        let file = path.display();
        Failure::Program(format!(
            "{file}:{line}:{column}: error: a program is UTF-8 text, and byte 0x{byte:02x} is not"
        ))
    })
}

fn compile(options: &Options) -> Result<Option<Source>, Failure> {
    if let Some(folder) = options.include.iter().find(|f| !f.is_dir()) {
        return Err(format!("-I {}: there is no such folder", folder.display()).into());
    }
    let Some(path) = &options.p4 else { return Ok(None) };
    let word = options.program_word();
    let text = text_of(path, &word)?;
    let name = path.to_string_lossy();
    let how = weir_p4::syntax::options::Options { folders: options.include.clone(), macros: options.macros.clone() };
    let program = weir_p4::compile_file(&name, &text, &how).map_err(Failure::Program)?;
    p4runtime::check_state(&program, options.max_state_bytes()).map_err(|e| format!("{word}: {e}"))?;
    if !program.warnings.is_empty() {
        eprintln!("{}", program.warnings.trim_end());
    }
    if let Some(path) = &options.p4info_out {
        let written = Format::of(path).and_then(|format| program.info.file(format)).and_then(|bytes| {
            if path.as_os_str() == "-" {
                return print(&bytes);
            }
            let written = files::create(path).and_then(|mut file| file.write_all(&bytes));
            written.map_err(|e| source::explain(path, &e))
        });
        written.map_err(|e| format!("--p4info-out {}: {e}", path.display()))?;
    }
    Ok(Some(Source { program: Arc::new(program), text }))
}

/// Configuration of the server, if there is one.
fn server(options: &Options) -> Result<Option<ServeConfig>, String> {
    if options.no_grpc {
        return Ok(None);
    }
    let read = |name: &str, path: &Option<PathBuf>| {
        let Some(path) = path else { return Ok(None) };
        let from = format!("{name} {}", path.display());
        let text = source::read(path).map_err(|e| format!("{from}: {e}"))?;
        Ok::<_, String>(Some(Pem { from, text }))
    };
    let certificate = read("--grpc-server-cert", &options.grpc_server_cert)?;
    let key = read("--grpc-server-key", &options.grpc_server_key)?;
    let authority = read("--grpc-server-cacert", &options.grpc_server_cacert)?;
    if authority.is_some() && !options.grpc_server_with_client_auth {
        tracing::warn!("--grpc-server-cacert has no effect without --grpc-server-with-client-auth");
    }
    let tls = certificate.zip(key).filter(|_| options.grpc_server_ssl).map(|(certificate, key)| Tls {
        certificate,
        key,
        client_authority: authority.filter(|_| options.grpc_server_with_client_auth),
    });
    let access = match &options.grpc_rights {
        None => None,
        Some(path) => {
            let from = format!("--grpc-rights {}", path.display());
            let text = source::read(path).map_err(|e| format!("{from}: {e}"))?;
            Some(Access::read(&from, text)?)
        }
    };
    let (addr, device_id, cpu_port) = (options.grpc_server_addr, options.device_id, options.cpu_port);
    let max_state_bytes = options.max_state_bytes();
    Ok(Some(ServeConfig { addr, device_id, cpu_port, tls, max_state_bytes, access }))
}

fn run(options: &Options) -> Result<(), Failure> {
    log(options)?;
    if let Some(folder) = options.pcap.as_ref().filter(|f| !f.is_dir()) {
        return Err(format!("--pcap {}: there is no such folder", folder.display()).into());
    }
    let ports = options.ports();
    let priorities = usize::from(options.priority_queues);
    let limits = QueueConfig { ports, priorities, specs: options.queue_specs()?, file: options.queues.clone() };
    let server = server(options)?;
    let source = compile(options)?;
    if options.check {
        return Ok(());
    }
    // Before any other thread starts, so that all of them leave these signals to the packet thread.
    let signals = system::signals(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1])
        .map_err(|e| format!("signals: {e}"))?;
    let mut clock = Clock::start().map_err(|e| format!("timer: {e}"))?;
    let mut device = Device::new(Config {
        priorities: usize::from(options.priority_queues),
        cpu_port: options.cpu_port,
        drop_port: options.drop_port,
        seed: options.seed,
        is_native: !options.no_jit,
        ..Config::default()
    });
    queues::apply(&limits.read()?, &limits.ports, &mut device.traffic_manager, 0);
    let mut ports =
        Ports::open(&options.interface, options.receive_bytes(), options.pcap.as_deref(), clock.epoch_ns())?;
    let listening = server.map(p4runtime::listen).transpose()?;
    let thrift = options.thrift_port.map(thrift::listen).transpose()?;
    // While this is the only thread. Files opened from here on belong to that user.
    match &options.user {
        Some(user) => system::become_user(user).map_err(|e| format!("--user: {e}"))?,
        None => system::give_up_capabilities()?,
    }
    ports.senders.start_threads(options.send_threads.into()).map_err(|e| format!("a thread for sending: {e}"))?;
    let trace = options.trace.as_ref().map(|path| TraceWriter::start(path, options.trace_mib << 20)).transpose()?;
    let trace = trace.map(|(sender, writer)| {
        device.trace_to(sender);
        writer
    });
    let audit = options.audit.as_ref().map(|path| Audit::open(path, options.audit_mib << 20)).transpose()?;
    ports.recheck(&mut device, clock.now_ns());
    if let Some(path) = &options.stats_json {
        statistics::write(path, &device, &mut ports)?;
    }
    let initial = source.map(|Source { program, text }| {
        let generation = device.set_pipeline(program.clone());
        InitialPipeline { program, generation, device_config: text.into_bytes() }
    });
    let (handle, jobs) = handle::channel().map_err(|e| format!("eventfd: {e}"))?;
    let reader = limits.reader(handle.clone()).map_err(|e| format!("a thread for --queues: {e}"))?;
    let audit = audit.unwrap_or_else(Audit::none);
    let limits = (options.device_id, options.cpu_port, options.max_state_bytes());
    let control = Control::new(limits, handle, initial, audit)?;
    let serve = |l: p4runtime::Listening| l.serve_state(&control, device.subscribe());
    let running = listening.map(serve).transpose()?;
    let facts = thrift::Switch { ports: options.interface.clone() };
    let thrift = thrift.map(|l| l.serve(control.clone(), facts)).transpose()?;
    drop(control);
    let addresses = [
        running.as_ref().map(|r| format!(", P4Runtime on {}", r.addr)),
        thrift.as_ref().map(|r| format!(", Thrift on {}", r.addr)),
    ];
    let listening: String = addresses.into_iter().flatten().collect();
    print(format!("ready: {} ports{listening}\n", options.interface.len()).as_bytes())?;
    let mut packets = Loop {
        device: &mut device,
        ports: &mut ports,
        jobs: &jobs,
        clock: &mut clock,
        signals: &signals,
        queues: &reader,
        stats: options.stats_json.as_deref(),
    };
    let result = packets.run().map_err(|e| format!("packet loop: {e}"));
    let result = result.and(packets.write_stats());
    // Before the server: calls that wait for the packet thread end with it, and so does the server.
    drop(jobs);
    drop(thrift);
    drop(running);
    device.end_trace();
    trace.into_iter().for_each(TraceWriter::finish);
    Ok(result?)
}
