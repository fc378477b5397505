// SPDX-License-Identifier: Apache-2.0
//! A stack of its own for code that recurses along a program's nesting, so that the limits of [`crate::syntax::parser`]
//! hold on any thread. The memory is only taken as far as it is used.

const STACK_BYTES: usize = 1 << 30;

/// Runs `work` on a large stack. The error: there is no thread to be had.
pub fn run<T: Send>(work: impl FnOnce() -> T + Send) -> std::io::Result<T> {
    std::thread::scope(|s| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(s, work)?;
        match thread.join() {
            Ok(result) => Ok(result),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}
