// SPDX-License-Identifier: Apache-2.0
//! Locks that outlive a panic.
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A panic while it was held has ended that work, not the server.
pub fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}
