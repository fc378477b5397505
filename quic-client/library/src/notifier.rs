// SPDX-License-Identifier: Apache-2.0
//! [`Notifier`]: the call of a program's thread to the driver.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weir_io::wait::Wakeup;

/// Reports once that one connection has something to do.
pub struct Notifier {
    is_dirty: AtomicBool,
    wakeup: Arc<Wakeup>,
}

impl Notifier {
    /// Wakes the driver by its wake-up.
    pub fn new(wakeup: Arc<Wakeup>) -> Notifier {
        Notifier { is_dirty: AtomicBool::new(false), wakeup }
    }

    /// Lets the driver serve the connection.
    pub fn notify(&self) {
        if !self.is_dirty.swap(true, Ordering::AcqRel) {
            self.wakeup.wake();
        }
    }

    /// Whether the connection has something to do; false until the next notification.
    pub fn take(&self) -> bool {
        self.is_dirty.swap(false, Ordering::AcqRel)
    }
}
