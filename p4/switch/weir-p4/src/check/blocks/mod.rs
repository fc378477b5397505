// SPDX-License-Identifier: Apache-2.0
//! Parsers, controls, tables, instances and the `main` package.
mod instances;
mod package;
mod parsers;
mod tables;
