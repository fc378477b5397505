// SPDX-License-Identifier: Apache-2.0
//! The compiler with the command line of p4c and p4c-bm2-ss.
#[path = "../../../weir-p4/src/bin/common/version.rs"]
mod version;
use std::io::Write as _;
use std::process::ExitCode;
use weir_p4::p4c::{Output, Request, Role, read};

fn main() -> ExitCode {
    let mut words = std::env::args_os().map(|word| word.into_string());
    let role = Role::of(&words.next().and_then(Result::ok).unwrap_or_default());
    let failed = |status: u8, message: &str| {
        eprintln!("{}: {}", role.name(), message.trim_end());
        ExitCode::from(status)
    };
    let words: Vec<String> = match words.collect() {
        Ok(words) => words,
        Err(word) => return failed(2, &format!("{}: must be UTF-8", word.display())),
    };
    let output = match read(role, version::VERSION, words) {
        Ok(Request::Print(text)) => Ok(Output { text, ..Output::default() }),
        Ok(Request::Compile(command)) => command.run(),
        Err(e) => return failed(2, &e),
    };
    match output {
        Ok(Output { text, warnings }) => {
            eprint!("{warnings}");
            let mut out = std::io::stdout();
            match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
                Ok(()) => ExitCode::SUCCESS,
                Err(e) => failed(1, &format!("standard output: {e}")),
            }
        }
        // The compiler's messages begin with file, line and column.
        Err(e) => {
            eprintln!("{}", e.trim_end());
            ExitCode::FAILURE
        }
    }
}
