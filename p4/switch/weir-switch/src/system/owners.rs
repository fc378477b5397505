// SPDX-License-Identifier: Apache-2.0
//! Processes that have a socket, of /proc (proc(5)): for messages, and as far as this user may see them.
use std::fs;
use std::net::SocketAddr;

/// State of a listening socket in /proc/net/tcp.
const LISTENING: &str = "0A";

/// The program that listens at an address which is in use, in words.
pub fn listener_at(addr: SocketAddr) -> String {
    let port = format!("{:04X}", addr.port());
    let of_file = |name: &str| {
        let text = fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default();
        listening(&text, &port).into_iter().find_map(owner)
    };
    let who = ["tcp", "tcp6"].into_iter().find_map(of_file);
    who.map_or_else(|| "another program listens there".into(), |who| format!("{who} listens there"))
}

/// The process that receives packets of an interface in the way of `weir-switch`: by a packet socket.
pub fn packet_user(interface: u32) -> Option<String> {
    let text = fs::read_to_string("/proc/thread-self/net/packet").ok()?;
    let mine = std::process::id();
    packet_sockets(&text, interface).into_iter().filter_map(process).find(|pid| *pid != mine).map(named)
}

/// Inodes of listening sockets in the form of /proc/net/tcp.
fn listening(text: &str, port: &str) -> Vec<u64> {
    let rows = text.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let fits = |row: &Vec<&str>| {
        row.get(1).is_some_and(|local| local.rsplit(':').next() == Some(port)) && row.get(3) == Some(&LISTENING)
    };
    rows.filter(fits).filter_map(|row| row.get(9)?.parse().ok()).collect()
}

/// Inodes of an interface's sockets in the form of /proc/net/packet.
fn packet_sockets(text: &str, interface: u32) -> Vec<u64> {
    let rows = text.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let fits = |row: &Vec<&str>| row.get(4).and_then(|index| index.parse().ok()) == Some(interface);
    rows.filter(fits).filter_map(|row| row.get(8)?.parse().ok()).collect()
}

fn owner(inode: u64) -> Option<String> {
    process(inode).map(named)
}

fn named(pid: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    format!("process {pid} ({})", name.trim_end())
}

/// The process that has a socket open.
fn process(inode: u64) -> Option<u32> {
    let link = format!("socket:[{inode}]");
    let has = |pid: &u32| {
        let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        open.into_iter().any(|fd| fs::read_link(fd.path()).is_ok_and(|target| target.as_os_str() == link.as_str()))
    };
    let all = fs::read_dir("/proc").ok()?.flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).find(has)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn the_listener_is_named() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let said = listener_at(listener.local_addr().unwrap());
            assert!(said.starts_with(&format!("process {} (", std::process::id())), "{said}");
        }
        assert_eq!(listener_at(SocketAddr::from(([127, 0, 0, 1], 0))), "another program listens there");
    }

    #[test]
    fn rows_of_other_ports_states_and_interfaces_are_not_taken() {
        let head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";
        let row = |local: &str, state: &str, inode: u32| {
            format!(
                "   0: {local} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000     0        0 {inode} 1\n"
            )
        };
        let rows = [
            row("0100007F:2382", "0A", 7),
            row("0100007F:2382", "01", 8),
            row("0100007F:2383", "0A", 9),
            row("00000000000000000000000001000000:2382", "0A", 10),
        ];
        assert_eq!(listening(&format!("{head}{}short\n", rows.concat()), "2382"), [7, 10]);
        let text = "sk RefCnt Type Proto Iface R Rmem User Inode\n\
                    0000000000000000 3 3 0003 2 1 0 0 41\n0000000000000000 3 3 0003 3 1 0 0 42\nx\n";
        assert_eq!(packet_sockets(text, 3), [42]);
    }
}
