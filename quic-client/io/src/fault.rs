// SPDX-License-Identifier: Apache-2.0
//! Errors that end a program early, with their exit codes.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

/// Exit code where a library fails in a way that no option or file explains.
pub const INTERNAL: u8 = 1;
/// Exit code for wrong usage (clap uses the same).
pub const USAGE: u8 = 2;
/// Exit code where a name can't be resolved or no connection is made.
pub const CONNECT: u8 = 3;
/// Exit code where nothing was heard for too long, or the whole run took too long.
pub const TIMEOUT: u8 = 5;
/// Exit code where a file can't be read or written, or an address can't be bound.
pub const IO: u8 = 8;
/// Exit code where a `--path` can't be used.
pub const PATHS: u8 = 9;

/// One line for the user and an exit code.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct Fault {
    /// Fault, its place, and the right form.
    pub text: String,
    /// Exit code.
    pub code: u8,
}

impl Fault {
    /// A fault with this exit code.
    pub fn new(code: u8, text: impl Into<String>) -> Fault {
        Fault { text: text.into(), code }
    }

    /// An input or output that failed while doing `what`.
    pub fn io(what: impl Display) -> impl FnOnce(io::Error) -> Fault {
        move |e| Fault::new(IO, format!("{what}: {e}"))
    }

    /// A library's error that no option or file explains.
    pub fn internal<E: Display>(what: &str) -> impl FnOnce(E) -> Fault {
        move |e| Fault::new(INTERNAL, format!("{what}: {e}"))
    }
}

impl From<io::Error> for Fault {
    fn from(e: io::Error) -> Self {
        Fault::new(IO, e.to_string())
    }
}

/// Writes to standard output, now: an error at the end of the program would be lost.
///
/// # Errors
/// It can't be written.
pub fn print(text: &str) -> Result<(), Fault> {
    let mut out = io::stdout();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Fault::io("standard output"))
}

/// Prints the fault, if any, in one line and gives the exit code.
pub fn exit(program: &str, result: Result<u8, Fault>) -> ExitCode {
    match result {
        Ok(code) => ExitCode::from(code),
        Err(fault) => {
            eprintln!("{program}: {}", weir_core::text::printable(&fault.text));
            ExitCode::from(fault.code)
        }
    }
}
