// SPDX-License-Identifier: Apache-2.0
//! Standard input as something to wait for, whether it is a pipe or a file.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::thread;
use weir_io::wait::Signals;

/// Standard input.
#[derive(Debug)]
pub struct Input {
    from: UnixStream,
    ended: bool,
}

/// Result of a read.
#[derive(Debug, PartialEq, Eq)]
pub enum Part {
    /// This much.
    Bytes(usize),
    /// Nothing for now.
    Nothing,
    /// It has ended.
    End,
}

impl Input {
    /// Begins to read. A thread does so, because a file can't be waited for together with sockets.
    ///
    /// # Errors
    /// The system has no more sockets.
    pub fn open() -> io::Result<Input> {
        let (from, mut to) = UnixStream::pair()?;
        from.set_nonblocking(true)?;
        thread::spawn(move || {
            let _ = Signals::leave_to_others();
            let mut buffer = [0; 1 << 14];
            let mut input = io::stdin().lock();
            // Ends with the input, or when nobody reads any more.
            while let Ok(n) = input.read(&mut buffer)
                && n > 0
                && to.write_all(&buffer[..n]).is_ok()
            {}
        });
        Ok(Input { from, ended: false })
    }

    /// Its descriptor, for waiting.
    pub fn fd(&self) -> RawFd {
        self.from.as_raw_fd()
    }

    /// Reads what there is.
    ///
    /// # Errors
    /// It can't be read.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<Part> {
        match self.from.read(buffer) {
            Ok(0) if self.ended => Ok(Part::Nothing),
            Ok(0) => {
                self.ended = true;
                Ok(Part::End)
            }
            Ok(n) => Ok(Part::Bytes(n)),
            Err(e) if e.kind() == ErrorKind::WouldBlock || e.kind() == ErrorKind::Interrupted => Ok(Part::Nothing),
            Err(e) => Err(e),
        }
    }
}
