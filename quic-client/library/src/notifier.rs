// SPDX-License-Identifier: Apache-2.0
//! [`Notifier`]: the call of a program's thread to the driver.

use crate::error::{Error, ErrorKind};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weir_io::wait::Wakeup;

thread_local! {
    /// This thread is a client's.
    static IS_DRIVER: Cell<bool> = const { Cell::new(false) };
}

/// Notes that this thread is a client's.
pub fn this_thread_never_waits() {
    IS_DRIVER.set(true);
}

/// Whether this thread may wait for a client's.
///
/// # Errors
/// It is one: an observer, for example, must not block.
pub fn may_wait() -> Result<(), Error> {
    match IS_DRIVER.get() {
        true => Err(Error::new(ErrorKind::Usage, "a blocking call on a client's own thread, such as of an observer")),
        false => Ok(()),
    }
}

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
