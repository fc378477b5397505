// SPDX-License-Identifier: Apache-2.0
//! Steps that several strategies share.

use crate::choice::path_id::PathId;
use crate::choice::strategy::Question;

/// The first usable path without a measurement (Tan Algorithm 1, L2-L11), and the reason to take it. The paper numbers the
/// paths freely: the one in use comes first.
pub fn unmeasured(question: &Question<'_>, measured: impl Fn(PathId) -> bool) -> Option<(PathId, &'static str)> {
    let mut untried = question.usable.iter().copied().filter(|p| !measured(*p));
    let first = untried.clone().find(|p| question.current == Some(*p)).or_else(|| untried.next())?;
    Some((first, if question.history.was_tried(first) { "expired" } else { "untried" }))
}

/// The path of the lowest index, the last of equals (Tan Algorithm 1, L17).
pub fn lowest(usable: &[PathId], index: impl Fn(PathId) -> Option<f64>) -> PathId {
    let mut best = (f64::INFINITY, usable[0]);
    for path in usable {
        let index = index(*path).unwrap_or(f64::INFINITY);
        if index <= best.0 {
            best = (index, *path);
        }
    }
    best.1
}
