// SPDX-License-Identifier: Apache-2.0
//! [`Head`]: a request without its content.

use quiche::h3::{Header, NameValue};

/// Method, path and fields of a request.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// Its method.
    pub method: &'a str,
    /// Its path with the query.
    pub path: &'a str,
    /// Its fields, pseudo-header fields included. Empty for hq-interop.
    pub fields: &'a [Header],
}

impl<'a> Head<'a> {
    /// The first field of this name, if it is UTF-8.
    pub fn field(&self, name: &str) -> Option<&'a str> {
        let found = self.fields.iter().find(|field| field.name() == name.as_bytes())?;
        std::str::from_utf8(found.value()).ok()
    }

    /// Whether there is a field of this name.
    pub fn has_field(&self, name: &str) -> bool {
        self.fields.iter().any(|field| field.name() == name.as_bytes())
    }
}
