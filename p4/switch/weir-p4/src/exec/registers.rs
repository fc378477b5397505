// SPDX-License-Identifier: Apache-2.0
//! Cells of registers. Those of at most 64 bits lie where native code can read and write them.
use crate::bytecode::program::RegisterDecl;
use crate::value::Val;

/// The place of a register's cells of 64 bits, as native code reads it; none for a wider register.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct View {
    /// Made of a `Box<[u64]>`, which [`Registers`] owns.
    cells: *mut u64,
    len: usize,
}

/// A register's cells, by how wide they are.
pub(crate) enum Cells<'a> {
    Narrow(&'a [u64]),
    Wide(&'a [Val]),
}

impl Cells<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Cells::Narrow(c) => c.len(),
            Cells::Wide(c) => c.len(),
        }
    }
}

/// The same, to change.
pub(crate) enum CellsMut<'a> {
    Narrow(&'a mut [u64]),
    Wide(&'a mut [Val]),
}

/// All registers of a program.
#[derive(Debug)]
pub(crate) struct Registers {
    views: Vec<View>,
    /// Cells of more than 64 bits; `None` for a narrow register.
    wide: Vec<Option<Vec<Val>>>,
}

// SAFETY: the cells belong to this value alone, as a box's would.
unsafe impl Send for Registers {}
// SAFETY: as above: they change through exclusive borrows only.
unsafe impl Sync for Registers {}

impl Registers {
    pub(crate) fn new(declared: &[RegisterDecl]) -> Registers {
        let is_narrow = |r: &RegisterDecl| r.width <= 64;
        let views = declared.iter().map(|r| {
            let cells: Box<[u64]> = vec![0; if is_narrow(r) { r.size } else { 0 }].into();
            View { len: cells.len(), cells: Box::into_raw(cells).cast() }
        });
        let wide = declared.iter().map(|r| (!is_narrow(r)).then(|| vec![Val::S(0); r.size]));
        Registers { views: views.collect(), wide: wide.collect() }
    }

    pub(crate) fn cells(&self, r: usize) -> Cells<'_> {
        match &self.wide[r] {
            Some(cells) => Cells::Wide(cells),
            None => {
                let view = &self.views[r];
                // SAFETY: the cells that `new` made, borrowed as this value is.
                Cells::Narrow(unsafe { std::slice::from_raw_parts(view.cells, view.len) })
            }
        }
    }

    pub(crate) fn cells_mut(&mut self, r: usize) -> CellsMut<'_> {
        match &mut self.wide[r] {
            Some(cells) => CellsMut::Wide(cells),
            None => {
                let view = &mut self.views[r];
                // SAFETY: the cells that `new` made, borrowed as this value is.
                CellsMut::Narrow(unsafe { std::slice::from_raw_parts_mut(view.cells, view.len) })
            }
        }
    }

    /// The places of all registers' cells, for native code.
    pub(crate) fn views(&self) -> *const View {
        self.views.as_ptr()
    }
}

impl Drop for Registers {
    fn drop(&mut self) {
        for view in &self.views {
            // SAFETY: `new` made the box of this many cells, and nobody uses it any more.
            drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(view.cells, view.len)) });
        }
    }
}
