// SPDX-License-Identifier: Apache-2.0
//! Values of keys and parameters, which are numbers or, where the program says so, strings to controllers.
use super::bytes::{canonical, value};
use super::error::{At, Fail, Res, invalid};
use std::sync::Arc;
use tonic::Code;
use weir_p4::p4info::strings::{Refused, Strings};
use weir_p4::value::Val;

/// In keys and parameters a value that does not fit is INVALID_ARGUMENT (9.1.1, 9.1.2).
pub fn field(bytes: &[u8], width: u32, what: &str) -> Res<Val> {
    value(bytes, width).map_err(|e| e.with_code(Code::InvalidArgument)).at(|| what)
}

/// Gives the number that a string stands for.
pub type Look<'a> = &'a mut dyn FnMut(&Strings, &[u8]) -> Res<Val>;

/// As [`field`], of a type that may be a string to controllers.
pub fn named(bytes: &[u8], width: u32, strings: Option<&Arc<Strings>>, look: Look) -> Res<Val> {
    match strings {
        Some(s) => look(s, bytes).at(|| "value"),
        None => field(bytes, width, "value"),
    }
}

pub fn refused(e: Refused) -> Fail {
    match e {
        Refused::Wrong(why) => invalid(why),
        Refused::Full(why) => Fail::new(Code::ResourceExhausted, why),
    }
}

/// The number that a controller's string stands for, given out if it has none.
pub fn number(strings: &Strings, bytes: &[u8]) -> Res<Val> {
    strings.number(bytes).map_err(refused)
}

/// A value as controllers see it.
pub fn told(v: &Val, strings: Option<&Arc<Strings>>) -> Vec<u8> {
    strings.map_or_else(|| canonical(v), |s| s.string(v))
}
