// SPDX-License-Identifier: Apache-2.0
//! Memory of native code. It is never writable and executable at once: the code is written to a file in memory whose
//! mapping is readable and executable from the start. Processes that may not make memory executable (systemd's
//! `MemoryDenyWriteExecute`, `PR_SET_MDWE`) can map it too.
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::c_void;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Executable memory, given back when this is dropped.
pub(super) struct Executable {
    at: *mut c_void,
    len: usize,
}

// SAFETY: the memory is only read and run, by any thread, and unmapped by the last owner.
unsafe impl Send for Executable {}
// SAFETY: as above.
unsafe impl Sync for Executable {}

impl Executable {
    /// Maps `len` bytes, and writes there what `code` gives for their address.
    ///
    /// # Errors
    /// The system gives no executable memory, as text; or `code` fails.
    pub(super) fn new(len: usize, code: impl FnOnce(usize) -> Result<Vec<u8>, String>) -> Result<Executable, String> {
        let failed = |e: std::io::Error| format!("no executable memory: {e}");
        let base = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        // Linux before 6.3 has no flag for files that may be executed.
        let file = memfd_create("weir-p4", base | MemfdFlags::EXEC).or_else(|_| memfd_create("weir-p4", base));
        let file = File::from(file.map_err(|e| failed(e.into()))?);
        file.set_len(len as u64).map_err(failed)?;
        let access = ProtFlags::READ | ProtFlags::EXEC;
        // SAFETY: a new mapping at an address of the kernel's choice, of a file that nobody else has.
        let at = unsafe { mmap(std::ptr::null_mut(), len, access, MapFlags::PRIVATE, &file, 0) };
        let memory = Executable { at: at.map_err(|e| failed(e.into()))?, len };
        let bytes = code(memory.at as usize)?;
        if bytes.len() > len {
            return Err(format!("{} bytes of code for {len} bytes of memory", bytes.len()));
        }
        file.write_all_at(&bytes, 0).map_err(failed)?;
        // No page was read yet, so that the mapping shows what was written; from here on nobody can change it.
        let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
        fcntl_add_seals(&file, seals).map_err(|e| failed(e.into()))?;
        Ok(memory)
    }

    /// The address of a byte of the code.
    ///
    /// # Panics
    /// There is none at this offset.
    pub(super) fn address(&self, offset: u32) -> *const c_void {
        assert!((offset as usize) < self.len, "offset {offset} is outside {} bytes of code", self.len);
        self.at.cast_const().wrapping_byte_add(offset as usize)
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        // SAFETY: the mapping that was made for this value, which nobody runs any more. A failure leaves it mapped.
        let _ = unsafe { munmap(self.at, self.len) };
    }
}
