// SPDX-License-Identifier: Apache-2.0
//! P4_16 front end and v1model interpreter. No I/O besides reading included files.
//!
//! [`compile`] turns source text into a [`bytecode::program::Program`]; [`v1model::Switch`] runs packets through it.
pub mod bmv2;
pub mod bytecode;
mod check;
pub mod exec;
#[doc(hidden)]
pub mod fuzz;
pub mod p4c;
pub mod p4info;
pub mod package;
pub mod source;
mod stack;
pub mod stf;
pub mod syntax;
pub mod v1model;
pub mod value;

use bytecode::lower::lower;
use bytecode::program::Program;
use package::Package;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use syntax::diagnostics::{Diagnostics, Span};
use syntax::options::{Macros, Options};
use syntax::{lexer, parser, preprocess};

/// Compiles the P4 program `text` (named `name` in messages), looking for quoted includes in `dirs`.
///
/// # Errors
/// The rendered diagnostics, one block each, when the program is not accepted.
pub fn compile(name: &str, text: &str, dirs: &[PathBuf]) -> Result<Program, Diagnostics> {
    compile_from(name, text, preprocess::Files::Disk(dirs), &Macros::default())
}

/// Compiles a program as a command line asks for.
///
/// # Errors
/// As [`compile`].
pub fn compile_with(name: &str, text: &str, options: &Options) -> Result<Program, Diagnostics> {
    compile_from(name, text, preprocess::Files::Disk(&options.folders), &options.macros)
}

/// The program's text after the preprocessor, with its included files.
///
/// # Errors
/// As [`compile`], from the preprocessor alone.
pub fn preprocessed(name: &str, text: &str, options: &Options) -> Result<String, Diagnostics> {
    let mut diags = Diagnostics::default();
    let files = preprocess::Files::Disk(&options.folders);
    let (tokens, _) = preprocess::preprocess(name, text, files, &options.macros, &mut diags);
    if diags.has_errors() { Err(diags) } else { Ok(lexer::spelled(&tokens)) }
}

/// Compiles a file that a command line names: P4 source as [`compile_with`], a package of `weir-p4c`, or BMv2's JSON.
///
/// # Errors
/// The errors as text, each with the file's name and the place.
pub fn compile_file(name: &str, text: &str, options: &Options) -> Result<Program, String> {
    if bmv2::is_json(text) && !p4info::is_p4info(text.as_bytes()) {
        if let Some(package) = Package::read(text).map_err(|e| format!("{name}: error: {e}\n"))? {
            return package.compile().map_err(|d| d.to_string());
        }
        return bmv2::load(text).map(|l| l.program).map_err(|e| format!("{name}: error: {e}\n"));
    }
    compile_with(name, text, options).map_err(|d| d.to_string())
}

/// Compiles the P4 program `main` of a package in memory, given by path and text; no file of the machine is read.
///
/// # Errors
/// As [`compile`]; `main` missing from the package is one of them.
pub fn compile_package(main: &str, files: &BTreeMap<String, String>, macros: &Macros) -> Result<Program, Diagnostics> {
    let Some(text) = files.get(main) else {
        let mut diags = Diagnostics::default();
        diags.error(Span::default(), format!("the package has no file `{main}`"));
        return Err(diags);
    };
    compile_from(main, text, preprocess::Files::Memory(files, &[PathBuf::new()]), macros)
}

fn compile_from(name: &str, text: &str, files: preprocess::Files<'_>, macros: &Macros) -> Result<Program, Diagnostics> {
    recorded(name, text, files, macros).map(|(program, _)| program)
}

/// The program, and the files of the disk that it includes.
fn recorded(
    name: &str,
    text: &str,
    files: preprocess::Files<'_>,
    macros: &Macros,
) -> Result<(Program, Vec<preprocess::Included>), Diagnostics> {
    stack::run(|| translate(name, text, files, macros)).unwrap_or_else(|e| {
        let mut diags = Diagnostics::default();
        diags.error(Span::default(), format!("no thread to compile in: {e}"));
        Err(diags)
    })
}

fn translate(
    name: &str,
    text: &str,
    files: preprocess::Files<'_>,
    macros: &Macros,
) -> Result<(Program, Vec<preprocess::Included>), Diagnostics> {
    let mut diags = Diagnostics::default();
    if p4info::is_p4info(text.as_bytes()) {
        diags.error(Span::default(), format!("{name} {}", p4info::NO_PROGRAM));
        return Err(diags);
    }
    let (tokens, included) = preprocess::preprocess(name, text, files, macros, &mut diags);
    if diags.has_errors() {
        return Err(diags);
    }
    let decls = parser::parse(tokens, &mut diags);
    if diags.has_errors() {
        return Err(diags);
    }
    match check::compile(&decls, &mut diags) {
        Some(mut program) if !diags.has_errors() => match lower(&program) {
            Some(code) => {
                program.code = Some(Arc::new(code));
                program.warnings = diags.to_string();
                Ok((program, included))
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
