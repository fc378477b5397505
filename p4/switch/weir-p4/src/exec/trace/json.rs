// SPDX-License-Identifier: Apache-2.0
//! Objects and lists of JSON, written in order.
use crate::value::Val;

/// Appends a string with its quotes.
fn quoted(to: &mut String, text: &str) {
    to.push_str(&serde_json::Value::from(text).to_string());
}

/// A value of `width` bits in hexadecimal digits, with leading zeros.
pub(super) fn hex(v: &Val, width: u32) -> String {
    let digits = (width.max(1) as usize).div_ceil(4);
    match v {
        Val::S(x) => format!("0x{x:0digits$x}"),
        Val::B(x) => format!("0x{:0>digits$}", x.to_str_radix(16)),
    }
}

/// An object that is being written.
pub(super) struct Object<'t> {
    to: &'t mut String,
    first: bool,
}

impl<'t> Object<'t> {
    pub fn new(to: &'t mut String) -> Object<'t> {
        to.push('{');
        Object { to, first: true }
    }

    /// Goes on with an object that was not ended.
    pub fn more(to: &'t mut String) -> Object<'t> {
        Object { to, first: false }
    }

    fn key(&mut self, key: &str) -> &mut String {
        if !std::mem::replace(&mut self.first, false) {
            self.to.push(',');
        }
        quoted(self.to, key);
        self.to.push(':');
        self.to
    }

    pub fn text(&mut self, key: &str, text: &str) {
        quoted(self.key(key), text);
    }

    pub fn number(&mut self, key: &str, n: u64) {
        let n = n.to_string();
        self.key(key).push_str(&n);
    }

    pub fn flag(&mut self, key: &str, flag: bool) {
        self.key(key).push_str(if flag { "true" } else { "false" });
    }

    pub fn object(&mut self, key: &str, fill: impl FnOnce(&mut Object)) {
        let mut inner = Object::new(self.key(key));
        fill(&mut inner);
        inner.end();
    }

    pub fn list<T>(&mut self, key: &str, items: impl IntoIterator<Item = T>, mut item: impl FnMut(&mut String, T)) {
        let to = self.key(key);
        to.push('[');
        for (i, x) in items.into_iter().enumerate() {
            if i > 0 {
                to.push(',');
            }
            item(to, x);
        }
        to.push(']');
    }

    pub fn texts(&mut self, key: &str, items: impl IntoIterator<Item = String>) {
        self.list(key, items, |to, x| quoted(to, &x));
    }

    pub fn end(self) {
        self.to.push('}');
    }
}
