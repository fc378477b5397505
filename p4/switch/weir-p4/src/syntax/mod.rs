// SPDX-License-Identifier: Apache-2.0
//! From text to a syntax tree: [`preprocess`], [`lexer`], [`parser`], [`ast`], and the messages about all stages
//! ([`diagnostics`]).
pub(crate) mod ast;
pub mod diagnostics;
pub mod lexer;
pub mod options;
pub(crate) mod parser;
pub(crate) mod preprocess;
