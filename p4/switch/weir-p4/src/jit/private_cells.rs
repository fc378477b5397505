// SPDX-License-Identifier: Apache-2.0
//! Cells that need no store.
use super::functions::Body;
use crate::bytecode::code::Code;

#[derive(Default)]
pub(super) struct PrivateCells {}

pub(super) fn find(_code: &Code, _bodies: &[Body]) -> PrivateCells {
    PrivateCells {}
}
