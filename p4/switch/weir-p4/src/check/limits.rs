// SPDX-License-Identifier: Apache-2.0
//! Limits of one compilation, so that no program keeps the compiler busy for long.

/// Steps of compiling: expressions and types looked at, statements and values made. pid_delay.p4 takes 30,000.
pub const COMPILE_STEPS: u64 = 3_000_000;

/// Values in one tuple, those of its members included.
pub const TUPLE_VALUES: usize = 1 << 16;

/// Fields that a type of structs, stacks and tuples has in all.
pub const TYPE_FIELDS: usize = 1 << 20;
