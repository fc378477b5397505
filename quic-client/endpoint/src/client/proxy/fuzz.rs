// SPDX-License-Identifier: Apache-2.0
//! Entry points of the fuzz targets: each takes any bytes, and panics if a property does not hold.

use super::{http, socks};

/// Comparison of a parser over all prefixes: a message that is complete stays the same with more bytes behind it,
/// and none was complete before.
fn same_at_each_cut<T: PartialEq + std::fmt::Debug, E: PartialEq + std::fmt::Debug>(
    bytes: &[u8],
    parse: impl Fn(&[u8]) -> Result<Option<(T, usize)>, E>,
) {
    if let Ok(Some((_, len))) = parse(bytes) {
        assert!(len <= bytes.len());
        let whole = parse(&bytes[..len]);
        assert_eq!(whole, parse(bytes));
        for cut in (0..len).rev().take(64) {
            assert_eq!(parse(&bytes[..cut]), Ok(None));
        }
    }
}

/// Messages of SOCKS5 clients.
pub fn socks(bytes: &[u8]) {
    same_at_each_cut(bytes, |b| socks::methods(b).map(|found| found.map(|(m, len)| (m.to_vec(), len))));
    same_at_each_cut(bytes, |b| {
        socks::credentials(b).map(|found| found.map(|((user, word), len)| ((user.to_vec(), word.to_vec()), len)))
    });
    same_at_each_cut(bytes, |b| socks::request(b).map(|found| found.map(|(command, to, len)| ((command, to), len))));
    if let Some((to, payload)) = socks::datagram(bytes) {
        let again = socks::datagram_from(&to, payload);
        assert_eq!(socks::datagram(&again), Some((to, payload)));
    }
}

/// Requests of HTTP clients.
pub fn http(bytes: &[u8]) {
    same_at_each_cut(bytes, http::connect);
    if let Err(refusal) = http::connect(bytes) {
        assert!(refusal.to_bytes().starts_with(b"HTTP/1.1 "));
        assert_eq!(refusal.text.lines().count(), 1);
    }
}
