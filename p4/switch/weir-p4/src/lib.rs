// SPDX-License-Identifier: Apache-2.0
//! P4_16 front end and v1model interpreter. No I/O besides reading included files.
//!
//! [`compile`] turns source text into a [`ir::Program`]; [`switch::Switch`] runs packets through it.
#![allow(missing_docs, clippy::too_many_lines, reason = "follows in the next commits")]
pub mod ast;
pub mod check;
mod code;
pub mod cost;
mod deep;
pub mod diag;
#[doc(hidden)]
pub mod fuzz;
pub mod info;
pub mod interp;
pub mod ir;
pub mod lexer;
mod lower;
pub mod lpm;
pub mod options;
pub mod packet;
pub mod parser;
pub mod pp;
pub mod runtime;
pub mod stf;
pub mod strings;
pub mod switch;
mod table;
pub mod types;
pub mod value;
mod width;

use options::{Macros, Options};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Compiles the P4 program `text` (named `name` in messages), looking for quoted includes in `dirs`.
///
/// # Errors
/// The rendered diagnostics, one block each, when the program is not accepted.
pub fn compile(name: &str, text: &str, dirs: &[PathBuf]) -> Result<ir::Program, diag::Diagnostics> {
    compile_from(name, text, pp::Files::Disk(dirs), &Macros::default())
}

/// Compiles a program as a command line asks for.
///
/// # Errors
/// As [`compile`].
pub fn compile_with(name: &str, text: &str, options: &Options) -> Result<ir::Program, diag::Diagnostics> {
    compile_from(name, text, pp::Files::Disk(&options.folders), &options.macros)
}

/// Compiles the P4 program `main` of a package in memory, given by path and text; no file of the machine is read.
///
/// # Errors
/// As [`compile`]; `main` missing from the package is one of them.
pub fn compile_package(
    main: &str,
    files: &BTreeMap<String, String>,
    macros: &Macros,
) -> Result<ir::Program, diag::Diagnostics> {
    let Some(text) = files.get(main) else {
        let mut diags = diag::Diagnostics::default();
        diags.error(diag::Span::default(), format!("the package has no file `{main}`"));
        return Err(diags);
    };
    compile_from(main, text, pp::Files::Memory(files), macros)
}

fn compile_from(
    name: &str,
    text: &str,
    files: pp::Files<'_>,
    macros: &Macros,
) -> Result<ir::Program, diag::Diagnostics> {
    deep::run(|| translate(name, text, files, macros)).unwrap_or_else(|e| {
        let mut diags = diag::Diagnostics::default();
        diags.error(diag::Span::default(), format!("no thread to compile in: {e}"));
        Err(diags)
    })
}

fn translate(name: &str, text: &str, files: pp::Files<'_>, macros: &Macros) -> Result<ir::Program, diag::Diagnostics> {
    let mut diags = diag::Diagnostics::default();
    let tokens = pp::preprocess(name, text, files, macros, &mut diags);
    if diags.has_errors() {
        return Err(diags);
    }
    let decls = parser::parse(tokens, &mut diags);
    if diags.has_errors() {
        return Err(diags);
    }
    match check::compile(&decls, &mut diags) {
        Some(mut program) if !diags.has_errors() => match lower::lower(&program) {
            Some(code) => {
                program.code = Some(Arc::new(code));
                program.warnings = diags.to_string();
                Ok(program)
            }
            None => {
                let m = "unsupported: a program whose values go through so many places that it can't be compiled in \
                         seconds";
                diags.error(decls.last().map(|d| d.name.span).unwrap_or_default(), m);
                Err(diags)
            }
        },
        _ => Err(diags),
    }
}
