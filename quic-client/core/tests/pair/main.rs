// SPDX-License-Identifier: Apache-2.0
//! Windows and Retry on pairs of real connections. A program beside `it`, because `pair` too stands before the C library's
//! `clock_gettime`, and a program can have one such function.

#[path = "../../../quiche/tests/it/pair.rs"]
mod pair;
mod retry;
mod server_windows;
mod windows_pair;
