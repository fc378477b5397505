// SPDX-License-Identifier: Apache-2.0
//! The command line: simple_switch_grpc's flags where they mean the same, and ours.
use crate::bmv2_options::{Bmv2Options, Role, THRIFT_PORT};
use crate::p4runtime::STATE_BYTES;
use crate::queues::{self, GRAMMAR, QueueSpec};
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, ValueEnum};
use std::ffi::OsString;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use weir_p4::p4info::Format;
use weir_p4::syntax::options::Macros;
use weir_p4::v1model::DROP_PORT;

const EXAMPLES: &str = "\
Examples:
  Run a program on two interfaces, its second port a 10 Mbit/s link with room for 1000 packets:
      weir-switch --p4 pid_delay.p4 -i 1@veth0 -i 2@veth1 --queue 2:rate=10mbit,depth=1000p
  Wait for a controller to load a program (P4Runtime on 127.0.0.1:9559):
      weir-switch --no-p4 -i 1@veth0 -i 2@veth1
  Check that a program compiles, and write the P4Info that controllers need:
      weir-switch --check --p4 pid_delay.p4 --p4info-out pid_delay.p4info.txtpb

Once the ports are attached and the server listens, one line that begins with `ready` is written to standard output. \
Everything else is written to standard error. SIGINT and SIGTERM end the switch, SIGUSR1 writes the file of \
--stats-json, SIGHUP reads the file of --queues again.

Exit status: 0 at the end of its work, 2 for a wrong command line, 1 for any other error.";

/// Levels of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Level {
    /// As `debug`; paths of packets are in the file of --trace
    Trace,
    /// For developers
    Debug,
    /// Changes of ports, programs, limits
    Info,
    /// Conditions that an operator should check
    Warn,
    /// Failures
    Error,
    /// Nothing
    Off,
}

/// A P4 switch: compiles P4_16 source for the v1model architecture and runs it on network interfaces, with a
/// P4Runtime server for controllers.
#[derive(Clone, Debug, Parser)]
#[command(name = "weir-switch", version, after_help = EXAMPLES)]
pub struct Options {
    /// Use an interface as a port; repeatable
    #[arg(short, long = "interface", value_name = "PORT@INTERFACE", value_parser = interface)]
    pub interface: Vec<(u32, String)>,

    /// Program to run, as FILE alone
    #[arg(long, value_name = "FILE", group = "program", conflicts_with = "no_p4")]
    pub p4: Option<PathBuf>,

    /// Program to run: P4 source, or the JSON of p4c or weir-p4c
    #[arg(value_name = "FILE", group = "program")]
    file: Option<PathBuf>,

    /// Start without a program and wait for a controller to load one
    #[arg(long)]
    pub no_p4: bool,

    /// Folder to look for included files in; repeatable
    #[arg(short = 'I', value_name = "DIR")]
    pub include: Vec<PathBuf>,

    /// Define a macro as VALUE, or as 1; repeatable
    #[arg(short = 'D', value_name = "NAME[=VALUE]")]
    pub define: Vec<String>,

    /// Undefine a macro; repeatable. -D and -U apply in the order in which they are given
    #[arg(short = 'U', value_name = "NAME")]
    pub undefine: Vec<String>,

    /// The result of -D and -U
    #[arg(skip)]
    pub macros: Macros,

    /// Compile the program, print errors and warnings, and exit
    #[arg(long, requires = "program", conflicts_with = "no_p4")]
    pub check: bool,

    /// Write the program's P4Info, by FILE's suffix as text (.txtpb, .txt, none), binary (.binpb, .bin) or JSON (.json);
    /// `-` is standard output
    #[arg(long, value_name = "FILE", requires = "program", conflicts_with = "no_p4",
        value_parser = OsStringValueParser::new().try_map(p4info_file))]
    pub p4info_out: Option<PathBuf>,

    /// Limits of a port's queues, such as 2:rate=10mbit,depth=1000p; repeatable (see --help)
    #[arg(long, value_name = "PORT:LIMITS", long_help = queue_help())]
    pub queue: Vec<String>,

    /// File with more such limits, one on each line; `#` begins a comment. Read again on SIGHUP
    #[arg(long, value_name = "FILE")]
    pub queues: Option<PathBuf>,

    /// Memory of all ports' receive rings together: 2 MiB each, or less where that is more; room for 16 frames at least
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub receive_mib: u32,

    /// Threads that send frames of busy ports. They cost processor time: of use where processors are idle and the program
    /// is large
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=16))]
    pub send_threads: u8,

    /// Number of queues of each port; standard_metadata.priority selects one, and the highest number is served first
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=8))]
    pub priority_queues: u8,

    /// The device_id by which controllers address this switch
    #[arg(long, value_name = "ID", default_value_t = 0)]
    pub device_id: u64,

    /// Address on which the P4Runtime server listens
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9559", value_parser = address)]
    pub grpc_server_addr: SocketAddr,

    /// Allow the P4Runtime server to listen without TLS on an address that other machines can reach
    #[arg(long)]
    pub insecure_listen: bool,

    /// Do not start a P4Runtime server
    #[arg(long)]
    pub no_grpc: bool,

    /// Use TLS for the P4Runtime server
    #[arg(long, requires_all = ["grpc_server_cert", "grpc_server_key"])]
    pub grpc_server_ssl: bool,

    /// The server's certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "grpc_server_ssl")]
    pub grpc_server_cert: Option<PathBuf>,

    /// The server's key (PEM)
    #[arg(long, value_name = "FILE", requires = "grpc_server_ssl")]
    pub grpc_server_key: Option<PathBuf>,

    /// Certificate of the authority that signs the clients' certificates (PEM)
    #[arg(long, value_name = "FILE", requires = "grpc_server_ssl")]
    pub grpc_server_cacert: Option<PathBuf>,

    /// Refuse clients without a certificate that --grpc-server-cacert signed
    #[arg(long, requires_all = ["grpc_server_ssl", "grpc_server_cacert"])]
    pub grpc_server_with_client_auth: bool,

    /// Rights of clients by the subjects of their certificates: a TOML file of `[[client]] subject = { CN = "..." }
    /// rights = ["read", "write", "pipeline"]`; the first that fits decides, and a client that fits none has no rights
    #[arg(long, value_name = "FILE", requires = "grpc_server_with_client_auth")]
    pub grpc_rights: Option<PathBuf>,

    /// Write a line for each change that controllers ask for, and for each rejected one, to FILE (- for standard
    /// error), as JSON
    #[arg(long, value_name = "FILE", conflicts_with = "no_grpc")]
    pub audit: Option<PathBuf>,

    /// Size at which the file of --audit becomes FILE.1, in place of the one before
    #[arg(long, value_name = "MIB", default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub audit_mib: u64,

    /// User to become once ports are open; of root's rights only CAP_NET_RAW is kept, for interfaces that come back
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,

    /// Port for packet-in and packet-out; without it there is no packet I/O
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u32).range(1..=511))]
    pub cpu_port: Option<u32>,

    /// Value of egress_spec that drops the packet; mark_to_drop writes it
    #[arg(long, value_name = "PORT", default_value_t = DROP_PORT, value_parser = clap::value_parser!(u32).range(0..=511))]
    pub drop_port: u32,

    /// Limit for the memory of a program's registers, counters and meters together
    #[arg(long, value_name = "MIB", default_value_t = STATE_BYTES >> 20, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub max_state_mib: u64,

    /// Interpret the program, without native code for it
    #[arg(long)]
    pub no_jit: bool,

    /// Seed of the random numbers that programs draw
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Capture frames of each interface in DIR, as INTERFACE_in.pcap and INTERFACE_out.pcap
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true, default_missing_value = ".")]
    pub pcap: Option<PathBuf>,

    /// Write the path of each packet through the program to FILE (- for standard output), as lines of JSON; packets take
    /// several times as long. `weir p4 trace FILE` prints it
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,

    /// Size at which the file of --trace becomes FILE.1, in place of the one before
    #[arg(long, value_name = "MIB", default_value_t = 64, requires = "trace",
        value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub trace_mib: u64,

    /// Write the counters of ports and queues, and drops by reason, to FILE at the end and on SIGUSR1
    #[arg(long, value_name = "FILE")]
    pub stats_json: Option<PathBuf>,

    /// Log to standard error at level `info`
    #[arg(long, conflicts_with = "log_file")]
    pub log_console: bool,

    /// Log to a file
    #[arg(long, value_name = "FILE")]
    pub log_file: Option<PathBuf>,

    /// Lowest level to log; default: `info` with --log-console or --log-file, otherwise `warn`
    #[arg(short = 'L', long, value_name = "LEVEL", value_enum)]
    pub log_level: Option<Level>,

    /// Serve BMv2's Thrift methods, for simple_switch_CLI, on this port of 127.0.0.1 (0: a free one)
    /// [by BMv2's names: 9090]
    #[arg(long, value_name = "PORT")]
    pub thrift_port: Option<u16>,

    /// Make links by the names simple_switch, simple_switch_grpc, p4c and p4c-bm2-ss in DIR, and exit
    #[arg(long, value_name = "DIR", exclusive = true)]
    pub install_links: Option<PathBuf>,

    /// BMv2's other options
    #[command(flatten)]
    pub bmv2: Bmv2Options,

    /// The program was given as FILE alone
    #[arg(skip)]
    is_positional: bool,

    /// Name by which the switch was started
    #[arg(skip)]
    pub role: Role,

    /// Warnings about the command line
    #[arg(skip)]
    pub warnings: Vec<String>,
}

fn queue_help() -> String {
    format!(
        "Limits of queues: {GRAMMAR}. Repeatable. `default` applies to every port with an interface and \
         without limits of its own. Without this option a queue has BMv2's limits: no rate, 64 packets. The rate in \
         bit/s is that of the port's link, which all its queues share; a rate in packets/s applies to each queue by itself, as BMv2's set_queue_rate"
    )
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let wrong = |e: &dyn std::fmt::Display| format!("it is ADDRESS:PORT, such as 127.0.0.1:9559: {e}");
    // The resolver takes an address with its interface, as in [fe80::1%eth0]:9559, but no brackets.
    let bare = text.strip_prefix('[').and_then(|rest| rest.split_once("]:"));
    let of_host = bare.and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?).to_socket_addrs()));
    let mut found = of_host.unwrap_or_else(|| text.to_socket_addrs()).map_err(|e| wrong(&e))?;
    found.next().ok_or_else(|| wrong(&"no address has this name"))
}

fn p4info_file(name: OsString) -> Result<PathBuf, String> {
    let path = PathBuf::from(name);
    Format::of(&path).map(|_| path)
}

fn interface(text: &str) -> Result<(u32, String), String> {
    let wrong = || format!("it is PORT@INTERFACE, such as 1@veth0, with a port from 0 to 511, not `{text}`");
    let (port, name) = text.split_once('@').ok_or_else(wrong)?;
    let port = port.parse().ok().filter(|p| *p <= 511).ok_or_else(wrong)?;
    if name.is_empty() {
        return Err(wrong());
    }
    Ok((port, name.into()))
}

impl Options {
    /// Reads the command line, of which the first word is the program's name. BMv2 wants the options of its targets behind
    /// `--`; here it means nothing.
    ///
    /// # Errors
    /// clap's text, which is `--help` too, or a contradiction.
    pub fn read(args: impl IntoIterator<Item = OsString>) -> Result<Options, clap::Error> {
        let args: Vec<OsString> = args.into_iter().filter(|a| a != "--").collect();
        let role = args.first().map(|program| Role::of(program)).unwrap_or_default();
        let mut command = role.adapt(Options::command());
        let given = command.try_get_matches_from_mut(args).map_err(|mut e| {
            // clap's advice to put an unknown option behind `--`, where it would be taken for a file.
            e.remove(clap::error::ContextKind::Suggested);
            e
        })?;
        let mut options = Options::from_arg_matches(&given)?;
        options.role = role;
        if options.bmv2.json_version || options.install_links.is_some() {
            return Ok(options);
        }
        let wrong = match macros(&given, &options) {
            Ok(macros) => {
                options.macros = macros;
                options.complete(given.value_source("grpc_server_addr") == Some(ValueSource::CommandLine));
                options.contradiction(&given)
            }
            Err(m) => Some(m),
        };
        wrong.map_or(Ok(options), |m| Err(command.error(clap::error::ErrorKind::ValueValidation, m)))
    }

    /// Fills in what depends on the switch's name or on other options.
    fn complete(&mut self, has_grpc_address: bool) {
        self.warnings.extend(self.bmv2.warning());
        if self.log_level == Some(Level::Trace) && self.trace.is_none() {
            self.warnings.push("-L trace: the log has no packets; --trace FILE writes the path of each packet".into());
        }
        match self.file.take() {
            Some(file) if self.no_p4 && self.role.is_bmv2() => {
                self.warnings.push(format!("{}: ignored with --no-p4", file.display()))
            }
            Some(file) => {
                self.p4 = Some(file);
                self.is_positional = true;
            }
            None => {}
        }
        if !self.role.is_bmv2() {
            return;
        }
        self.thrift_port.get_or_insert(THRIFT_PORT);
        if let Some(path) = &mut self.log_file {
            path.as_mut_os_string().push(".txt");
        }
        self.no_grpc |= self.role == Role::SimpleSwitch;
        let addr = self.grpc_server_addr;
        if has_grpc_address && !self.no_grpc && self.is_open() {
            // As BMv2's users know it; by its own name the switch wants it confirmed.
            self.insecure_listen = true;
            let m = format!("P4Runtime on {addr}: without TLS whoever reaches this address can replace the program");
            self.warnings.push(m);
        }
    }

    /// Whether other machines can reach the P4Runtime server, without TLS.
    fn is_open(&self) -> bool {
        !(self.grpc_server_addr.ip().is_loopback() || self.grpc_server_ssl || self.insecure_listen)
    }

    fn contradiction(&self, given: &ArgMatches) -> Option<String> {
        if let Some(m) = self.bmv2.refused() {
            return Some(m);
        }
        if self.role == Role::SimpleSwitch && given.value_source("grpc_server_addr") == Some(ValueSource::CommandLine) {
            return Some("--grpc-server-addr: simple_switch has no P4Runtime server; start simple_switch_grpc".into());
        }
        for (i, (port, name)) in self.interface.iter().enumerate() {
            if let Some((_, other)) = self.interface[..i].iter().find(|(p, _)| p == port) {
                return Some(format!("port {port} is given twice, as {other} and as {name}"));
            }
            if let Some((other, _)) = self.interface[..i].iter().find(|(_, n)| n == name) {
                return Some(format!("interface {name} is given twice, as port {other} and as port {port}"));
            }
            if Some(*port) == self.cpu_port {
                return Some(format!("port {port} is the CPU port and can't be interface {name} too"));
            }
            if *port == self.drop_port {
                return Some(format!("port {port} is the drop port and can't be interface {name} too"));
            }
        }
        if self.cpu_port == Some(self.drop_port) {
            return Some(format!("port {} can't be the CPU port and the drop port", self.drop_port));
        }
        let addr = self.grpc_server_addr;
        if !(self.no_grpc || self.check) && self.is_open() {
            return Some(format!(
                "--grpc-server-addr {addr}: without TLS whoever reaches this address can replace the program; listen on \
                 127.0.0.1, give a certificate (--grpc-server-ssl), or allow it with --insecure-listen"
            ));
        }
        let queues = self.queue_specs().and_then(|specs| queues::check(&specs, &self.ports()));
        if let Err(e) = queues {
            return Some(format!("--queue: {e}"));
        }
        if let Some(file) = self.p4.as_ref().filter(|_| self.no_p4) {
            return Some(format!("{}: a program cannot be used with --no-p4", file.display()));
        }
        if self.p4.is_none() && self.no_grpc && self.thrift_port.is_none() {
            return Some("without a program (FILE) and without a server (--no-grpc) there is nothing to do".into());
        }
        if self.p4.is_none() && !self.no_p4 {
            return Some("give a program to run: FILE, or --no-p4 to wait for a controller to load one".into());
        }
        None
    }

    /// The program's file as the command line has it, for messages.
    pub fn program_word(&self) -> String {
        let option = if self.is_positional { "" } else { "--p4 " };
        self.p4.as_ref().map_or_else(String::new, |path| format!("{option}{}", path.display()))
    }

    /// Memory limit of a program's registers, counters and meters together.
    pub fn max_state_bytes(&self) -> u64 {
        self.max_state_mib << 20
    }

    /// Memory limit of all ports' receive rings together.
    pub fn receive_bytes(&self) -> usize {
        (self.receive_mib as usize) << 20
    }

    /// Ports that packets come in by, the CPU port among them.
    pub fn ports(&self) -> Vec<u32> {
        self.interface.iter().map(|(port, _)| *port).chain(self.cpu_port).collect()
    }

    /// The queue limits of the command line.
    ///
    /// # Errors
    /// The first invalid queue.
    pub fn queue_specs(&self) -> Result<Vec<QueueSpec>, String> {
        self.queue.iter().map(|q| QueueSpec::parse(q, usize::from(self.priority_queues))).collect()
    }
}

/// -D and -U in the order they were given.
fn macros(given: &ArgMatches, options: &Options) -> Result<Macros, String> {
    let places = |name: &str| given.indices_of(name).into_iter().flatten();
    let mut all: Vec<_> = places("define").zip(&options.define).map(|(at, text)| (at, true, text)).collect();
    all.extend(places("undefine").zip(&options.undefine).map(|(at, text)| (at, false, text)));
    all.sort();
    let mut macros = Macros::default();
    for (_, define, text) in all {
        if define {
            macros.define(text)?;
        } else {
            macros.undefine(text)?;
        }
    }
    Ok(macros)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Options, String> {
        let words = std::iter::once("weir-switch").chain(line.split_whitespace()).map(OsString::from);
        Options::read(words).map_err(|e| e.to_string())
    }

    #[test]
    fn simple_switch_grpc_s_flags_are_taken() {
        let line = "--device-id 3 --no-p4 -i 1@a -i 2@b --log-console -L debug --pcap=x -- --grpc-server-addr \
                    0.0.0.0:50051 --insecure-listen --cpu-port 255 --drop-port 511 --priority-queues 4";
        let o = read(line).unwrap();
        assert_eq!(o.interface, [(1, "a".to_string()), (2, "b".to_string())]);
        assert_eq!((o.device_id, o.cpu_port, o.drop_port, o.priority_queues), (3, Some(255), 511, 4));
        assert_eq!((o.grpc_server_addr.to_string().as_str(), o.pcap), ("0.0.0.0:50051", Some("x".into())));
        let o = read("--no-p4 --drop-port 400 -i 511@a").unwrap();
        assert_eq!((o.drop_port, o.interface), (400, vec![(511, "a".to_string())]));
        assert_eq!(read("--no-p4 --pcap").unwrap().pcap, Some(".".into()));
    }

    #[test]
    fn macros_count_in_their_order() {
        let o = read("--p4 a.p4 -DA -D B=2 -UA -D A=(1+2) -U C").unwrap();
        let mut want = Macros::default();
        want.define("A").unwrap();
        want.define("B=2").unwrap();
        want.undefine("A").unwrap();
        want.define("A=(1+2)").unwrap();
        want.undefine("C").unwrap();
        assert_eq!(o.macros, want);
    }

    #[test]
    fn what_can_not_be_is_said() {
        for (line, want) in [
            ("--thrift-port 99999", "99999 is not in 0..=65535"),
            ("router.json --p4 a.p4", "cannot be used with"),
            ("router.json --no-p4", "router.json: a program cannot be used with --no-p4"),
            ("-i veth0", "it is PORT@INTERFACE, such as 1@veth0"),
            ("-i 512@veth0", "with a port from 0 to 511, not `512@veth0`"),
            ("-i 1@a -i 1@b", "port 1 is given twice, as a and as b"),
            ("-i 1@a -i 2@a", "interface a is given twice, as port 1 and as port 2"),
            ("-i 5@a --cpu-port 5", "port 5 is the CPU port"),
            ("-i 511@a", "port 511 is the drop port"),
            ("--grpc-server-addr 9559", "it is ADDRESS:PORT, such as 127.0.0.1:9559"),
            (
                "--no-p4 --grpc-server-addr 0.0.0.0:1",
                "without TLS whoever reaches this address can replace the program",
            ),
            ("--no-p4 --grpc-server-addr [::]:1", "allow it with --insecure-listen"),
            ("--no-p4 --grpc-server-addr 10.0.0.1:1", "--grpc-server-addr 10.0.0.1:1: without TLS"),
            ("--drop-port 400 -i 400@a", "port 400 is the drop port"),
            ("--drop-port 400 --cpu-port 400", "port 400 can't be the CPU port and the drop port"),
            ("--drop-port 512", "512 is not in 0..=511"),
            ("--no-grpc", "there is nothing to do"),
            ("--no-p4 --no-grpc", "there is nothing to do"),
            ("-i 1@a", "give a program to run: FILE, or --no-p4"),
            ("--no-p4 --p4 a.p4", "cannot be used with"),
            ("--check", "<--p4 <FILE>|FILE>"),
            ("--no-p4 -D 1A", "-D 1A: must be NAME, NAME=VALUE or NAME(PARAMETERS)=VALUE"),
            ("--no-p4 -D =1", "-D =1: must be NAME"),
            ("--no-p4 -U A=1", "-U A=1: must be the name of a macro"),
            ("--grpc-server-ssl", "--grpc-server-cert <FILE>"),
            ("--priority-queues 0", "0 is not in 1..=8"),
            ("--receive-mib 0", "0 is not in 1..=1024"),
            ("--no-p4 -i 2@a --queue 2:foo", "queue `2:foo`"),
            ("--no-p4 -i 2@a --queue 3:rate=1mbit", "queue `3:rate=1mbit`"),
            ("--no-p4 -i 2@a --queue 2:depth=1p --queue 2:depth=2p", "queue `2:depth=2p`"),
            ("--p4 a.p4 --p4info-out a.foo", "a.foo: suffix .foo"),
            ("--no-p4 --p4info-out a.foo", "a.foo: suffix .foo"),
            ("--no-p4 --p4info-out a.txt", "cannot be used with"),
            ("--no-p4 --check", "cannot be used with"),
        ] {
            let said = read(line).unwrap_err();
            assert!(said.contains(want), "{line}: {said}");
        }
    }

    #[test]
    fn an_unknown_option_is_not_to_be_put_behind_dashes() {
        let said = read("--no-p4 --bogus").unwrap_err();
        assert!(said.contains("--bogus") && !said.contains("-- --bogus"), "{said}");
        assert!(read("--no-p4 --device-i 1").unwrap_err().contains("'--device-id'"), "what is similar is still named");
    }

    #[test]
    fn the_help_is_consistent() {
        <Options as clap::CommandFactory>::command().debug_assert();
    }
}
