// SPDX-License-Identifier: Apache-2.0
//! Command lines of BMv2 1.15's simple_switch and simple_switch_grpc, for a switch that is started by their names.
use clap::{Arg, ArgAction, Args, Command};
use std::ffi::OsStr;
use std::path::Path;

/// Largest version of BMv2's JSON that the switch loads (`--json-version`).
pub const JSON_VERSION: &str = "2.24";
/// Port of the Thrift server by BMv2's names.
pub const THRIFT_PORT: u16 = 9090;

const AFTER_HELP: &str = "\
Options are accepted in front of `--` and behind it. FILE is a program: BMv2's JSON, the JSON of weir-p4c, or P4 source.

Differences from BMv2: P4Runtime listens on 127.0.0.1:9559 unless --grpc-server-addr names another address. A log has \
level `info` unless --log-level names another. A wrong command line ends with exit status 2. \
weir-switch --help has all options with examples.";

/// Program by whose name the switch was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Neither of BMv2's.
    #[default]
    Own,
    /// BMv2 with its Thrift server.
    SimpleSwitch,
    /// BMv2 with its Thrift server and P4Runtime.
    SimpleSwitchGrpc,
}

impl Role {
    /// By the program's path.
    pub fn of(program: &OsStr) -> Role {
        match Path::new(program).file_name().and_then(OsStr::to_str) {
            Some("simple_switch") => Role::SimpleSwitch,
            Some("simple_switch_grpc") => Role::SimpleSwitchGrpc,
            _ => Role::Own,
        }
    }

    /// The program's name.
    pub fn name(self) -> &'static str {
        match self {
            Role::Own => "weir-switch",
            Role::SimpleSwitch => "simple_switch",
            Role::SimpleSwitchGrpc => "simple_switch_grpc",
        }
    }

    /// Whether the switch has one of BMv2's names.
    pub fn is_bmv2(self) -> bool {
        self != Role::Own
    }

    /// Answer to `--version`.
    pub fn version(self, version: &str) -> String {
        match self {
            Role::Own => format!("weir-switch {version}\n"),
            _ => format!("{} 1.15 (weir-switch {version} in its place)\n", self.name()),
        }
    }

    /// The command line of this name. BMv2's takes beginnings of options, `-v`, and a folder as the next word of `--pcap`.
    pub fn adapt(self, command: Command) -> Command {
        if !self.is_bmv2() {
            return command;
        }
        let version =
            Arg::new("version").short('v').visible_short_alias('V').long("version").action(ArgAction::Version);
        command
            .name(self.name())
            .about(format!("weir-switch in the place of BMv2's {}", self.name()))
            .long_about(None::<&str>)
            .after_help(AFTER_HELP)
            .infer_long_args(true)
            .disable_version_flag(true)
            .arg(version.help("Print version"))
            .mut_arg("pcap", |a| a.require_equals(false))
            .mut_args(|a| if a.get_help_heading() == Some(HEADING) { a.hide(false) } else { a })
    }
}

const HEADING: &str = "BMv2's options";

/// BMv2's options that this switch does not have.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = HEADING)]
pub struct Bmv2Options {
    /// Accepted with a warning: there are no nanomsg events
    #[arg(long, hide = true, value_name = "ADDRESS")]
    pub nanolog: Option<String>,

    /// Accepted with a warning: notifications go over P4Runtime
    #[arg(long, hide = true, value_name = "ADDRESS")]
    pub notifications_addr: Option<String>,

    /// Accepted with a warning: there is no debugger
    #[arg(long, hide = true)]
    pub debugger: bool,

    /// Accepted with a warning: there is no debugger
    #[arg(long, hide = true, value_name = "ADDRESS")]
    pub debugger_addr: Option<String>,

    /// Accepted with a warning: captures are written with --pcap
    #[arg(long, hide = true, value_name = "BYTES")]
    pub dump_packet_data: Option<u64>,

    /// Accepted with a warning: packets go through interfaces
    #[arg(long, hide = true, value_name = "ADDRESS")]
    pub dp_grpc_server_addr: Option<String>,

    /// Accepted with a warning: a controller may always replace the program
    #[arg(long, hide = true)]
    pub disable_swap: bool,

    /// Accepted with a warning: the log is one file
    #[arg(long, hide = true, value_name = "BYTES")]
    pub log_file_max_size: Option<u64>,

    /// Accepted with a warning: the log is one file
    #[arg(long, hide = true, value_name = "N")]
    pub log_file_max_files: Option<u64>,

    /// Always so: a controller may replace the program
    #[arg(long, hide = true)]
    pub enable_swap: bool,

    /// Always so: a message is written at once
    #[arg(long, hide = true)]
    pub log_flush: bool,

    /// Accepted: the limit is that of port numbers
    #[arg(long, hide = true, value_name = "N")]
    pub max_port_count: Option<u32>,

    /// Accepted: the limit is that of the P4Runtime server
    #[arg(long, hide = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pub max_mc_groups: Option<u32>,

    /// Accepted: the limit is that of the P4Runtime server
    #[arg(long, hide = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pub max_l1_entries: Option<u32>,

    /// Accepted: the limit is that of the P4Runtime server
    #[arg(long, hide = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pub max_l2_entries: Option<u32>,

    /// Refused: state is not saved
    #[arg(long, hide = true, value_name = "FILE")]
    pub restore_state: Option<String>,

    /// Refused: packets go through interfaces
    #[arg(long, hide = true, value_name = "SECONDS")]
    pub use_files: Option<String>,

    /// Refused: packets go through interfaces
    #[arg(long, hide = true, value_name = "ADDRESS")]
    pub packet_in: Option<String>,

    /// Refused: externs are built in
    #[arg(long, hide = true, value_name = "FILE")]
    pub load_modules: Option<String>,

    /// Print the largest supported version of BMv2's JSON
    #[arg(long, hide = true)]
    pub json_version: bool,
}

impl Bmv2Options {
    /// One warning for all given options without an effect.
    pub fn warning(&self) -> Option<String> {
        let given = [
            ("--nanolog", self.nanolog.is_some()),
            ("--notifications-addr", self.notifications_addr.is_some()),
            ("--debugger", self.debugger),
            ("--debugger-addr", self.debugger_addr.is_some()),
            ("--dump-packet-data", self.dump_packet_data.is_some()),
            ("--dp-grpc-server-addr", self.dp_grpc_server_addr.is_some()),
            ("--disable-swap", self.disable_swap),
            ("--log-file-max-size", self.log_file_max_size.is_some()),
            ("--log-file-max-files", self.log_file_max_files.is_some()),
        ];
        let names: Vec<_> = given.into_iter().filter_map(|(name, is_given)| is_given.then_some(name)).collect();
        (!names.is_empty()).then(|| format!("no effect: {}", names.join(", ")))
    }

    /// The first given option without which the switch would not do its work.
    pub fn refused(&self) -> Option<String> {
        let given = [
            ("--restore-state", &self.restore_state, "state is not saved; a controller writes it again"),
            ("--use-files", &self.use_files, "packets go through interfaces (-i PORT@INTERFACE)"),
            ("--packet-in", &self.packet_in, "packets go through interfaces (-i PORT@INTERFACE)"),
            ("--load-modules", &self.load_modules, "externs are those of core.p4 and v1model.p4"),
        ];
        let first = given.into_iter().find_map(|(name, value, why)| value.as_ref().map(|value| (name, value, why)));
        first.map(|(name, value, why)| format!("unsupported: {name} {value}: {why}"))
    }
}

#[cfg(test)]
mod tests {
    use crate::options::Options;
    use std::ffi::OsString;
    use std::path::PathBuf;

    fn read(line: &str) -> Result<Options, String> {
        Options::read(line.split_whitespace().map(OsString::from)).map_err(|e| e.to_string())
    }

    #[test]
    fn the_tutorials_command_line_is_taken() {
        // Shape of p4lang/tutorials' utils/p4runtime_switch.py.
        let o = read(
            "simple_switch_grpc -i 1@s1-eth1 -i 2@s1-eth2 --pcap /x/pcaps --nanolog ipc:///tmp/bm-0-log.ipc --device-id 1 \
             build/basic.json --debugger --log-console --thrift-port 9091 -- --grpc-server-addr 0.0.0.0:50051 \
             --cpu-port 255 --priority-queues 8",
        )
        .unwrap();
        assert_eq!(o.interface, [(1, "s1-eth1".to_string()), (2, "s1-eth2".to_string())]);
        assert_eq!((o.pcap, o.p4), (Some("/x/pcaps".into()), Some("build/basic.json".into())));
        assert_eq!((o.device_id, o.cpu_port, o.priority_queues, o.thrift_port), (1, Some(255), 8, Some(9091)));
        assert_eq!((o.grpc_server_addr.to_string().as_str(), o.log_console), ("0.0.0.0:50051", true));
        let warnings = o.warnings.join("\n");
        assert!(warnings.contains("no effect: --nanolog, --debugger"), "{warnings}");
        assert!(warnings.contains("0.0.0.0:50051: without TLS"), "{warnings}");
    }

    #[test]
    fn defaults_are_those_of_the_name() {
        let o = read("/usr/bin/simple_switch_grpc --no-p4").unwrap();
        assert_eq!((o.no_grpc, o.grpc_server_addr.to_string().as_str()), (false, "127.0.0.1:9559"));
        assert_eq!((o.thrift_port, o.warnings.len()), (Some(9090), 0));
        let o = read("simple_switch --no-p4").unwrap();
        assert_eq!((o.no_grpc, o.thrift_port), (true, Some(9090)));
        assert_eq!(read("weir-switch --no-p4").unwrap().thrift_port, None);
        assert_eq!(read("weir-switch --no-p4 --thrift-port 9091").unwrap().thrift_port, Some(9091));
    }

    #[test]
    fn simple_switch_s_options_are_taken() {
        let o = read(
            "simple_switch --interface 0@a -i 1@b --log-file /x/s1 --log-flush -L trace --pcap --thrift-port 9090 \
             --max-port-count 4 prog.json -- --enable-swap --drop-port 500 --priority-queues 2 --max-mc-groups 10",
        )
        .unwrap();
        assert_eq!((o.log_file, o.p4), (Some("/x/s1.txt".into()), Some("prog.json".into())));
        assert_eq!((o.pcap, o.drop_port, o.priority_queues), (Some(".".into()), 500, 2));
        let warning = "-L trace: the log has no packets; --trace FILE writes the path of each packet";
        assert_eq!(o.warnings, [warning]);
        assert_eq!(read("simple_switch a.json -L trace --trace t").unwrap().warnings, Vec::<String>::new());
        // As boost::program_options does: a beginning of a name, and a folder as the next word.
        assert_eq!(read("simple_switch a.json --thrift 9093").unwrap().thrift_port, Some(9093));
        assert_eq!(read("simple_switch --pcap x a.json").unwrap().pcap, Some(PathBuf::from("x")));
        let o = read("simple_switch_grpc --no-p4 a.json").unwrap();
        assert_eq!((o.p4, o.warnings), (None, vec!["a.json: ignored with --no-p4".to_string()]));
        assert!(read("simple_switch --json-version").unwrap().bmv2.json_version);
    }

    #[test]
    fn what_would_be_missed_is_refused() {
        for (line, want) in [
            ("simple_switch", "give a program to run: FILE, or --no-p4"),
            ("simple_switch a.json --restore-state s", "unsupported: --restore-state s: state is not saved"),
            ("simple_switch a.json --use-files 0", "unsupported: --use-files 0: packets go through interfaces"),
            ("simple_switch a.json --packet-in ipc:///x", "unsupported: --packet-in ipc:///x"),
            ("simple_switch a.json -- --load-modules x.so", "unsupported: --load-modules x.so: externs are those"),
            ("simple_switch a.json -- --grpc-server-addr 127.0.0.1:1", "simple_switch has no P4Runtime server"),
            ("simple_switch a.json b.json", "unexpected argument 'b.json'"),
            ("simple_switch a.json --thrift-port x", "--thrift-port"),
            ("simple_switch a.json -- --max-mc-groups 0", "--max-mc-groups"),
            ("simple_switch a.json --log-console --log-file x", "cannot be used with"),
        ] {
            let e = read(line).unwrap_err();
            assert!(e.contains(want), "{line}: {e}");
        }
    }

    #[test]
    fn help_and_version_have_the_name() {
        for name in ["simple_switch", "simple_switch_grpc"] {
            let help = read(&format!("{name} --help")).unwrap_err();
            assert!(help.contains(&format!("Usage: {name} ")) && help.contains("--nanolog <ADDRESS>"), "{help}");
            assert!(read(&format!("{name} -v")).is_err());
        }
        assert!(!read("weir-switch --help").unwrap_err().contains("--nanolog"));
    }
}
