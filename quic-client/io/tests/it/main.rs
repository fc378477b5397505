// SPDX-License-Identifier: Apache-2.0
//! Sockets and interfaces of this kernel, in private namespaces. `clock` is a program of its own: it replaces the time of
//! its whole process.

mod common;
mod interfaces;
mod offload;
