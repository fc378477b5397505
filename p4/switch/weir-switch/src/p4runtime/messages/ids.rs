// SPDX-License-Identifier: Apache-2.0
//! Ids of a program's objects.
use super::error::{Res, invalid, not_found};
use weir_p4::p4info::Preambled;

pub fn hex(id: u32) -> String {
    format!("0x{id:08x}")
}

/// An id that must name an object of the program.
pub fn object<'a, T: Preambled>(list: &'a [T], id: u32, what: &str) -> Res<(usize, &'a T)> {
    if id == 0 {
        return Err(invalid(format!("{what}_id is unset")));
    }
    let found = list.iter().enumerate().find(|(_, x)| x.id() == id);
    found.ok_or_else(|| {
        not_found(format!("{what}_id: the program has no {} with id {}", what.replace('_', " "), hex(id)))
    })
}
