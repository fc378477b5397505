// SPDX-License-Identifier: Apache-2.0
//! State of a running program between packets: tables, registers, counters, meters, groups, sessions.
use crate::bytecode::program::Program;
use crate::exec::change::ChangeError;
use crate::exec::meter::MeterCell;
use crate::exec::registers::{Cells, CellsMut, Registers, View};
use crate::exec::table::{EntryAction, EntryState, TableState};
use crate::value::Val;
use std::collections::BTreeMap;

/// A member of an action profile.
#[derive(Clone, Debug)]
pub struct Member {
    /// The action's procedure, by which each table that shares the profile knows it.
    pub body: usize,
    /// Values of the action's parameters.
    pub args: Vec<Val>,
}

/// Entries of an action profile.
#[derive(Clone, Debug, Default)]
pub struct ProfileState {
    /// Members by their ids.
    pub members: BTreeMap<u32, Member>,
    /// Members, each as often as its weight says.
    pub groups: BTreeMap<u32, Vec<u32>>,
}

/// Where clones of a session go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mirror {
    /// The port that gets the clone.
    pub port: Option<u32>,
    /// The multicast group whose ports get copies of the clone.
    pub group: Option<u32>,
    /// Length the clone is cut to when it is sent.
    pub truncate_bytes: Option<usize>,
}

/// Replication id and ports of each copy of a multicast group.
pub type Replicas = Vec<(u32, Vec<u32>)>;

/// All that a running program keeps from one packet to the next.
pub struct State {
    /// In the order of the program, as the others here.
    pub tables: Vec<TableState>,
    registers: Registers,
    register_widths: Vec<u32>,
    /// Packets and bytes.
    pub counters: Vec<Vec<(u64, u64)>>,
    /// Cells of each indirect meter; none for direct ones.
    pub meters: Vec<Vec<MeterCell>>,
    /// Action profiles and selectors.
    pub profiles: Vec<ProfileState>,
    /// Members as value and mask of each field.
    pub value_sets: Vec<Vec<Vec<(Val, Val)>>>,
    /// Clone sessions by their ids.
    pub mirrors: BTreeMap<u32, Mirror>,
    /// Multicast groups by their ids.
    pub groups: BTreeMap<u32, Replicas>,
    /// Time at which the program began to run: no entry is idle for longer.
    pub started_us: u64,
    rng: u64,
}

impl State {
    /// Fresh state with the program's constant entries; `seed` starts `random`.
    pub fn new(p: &Program, seed: u64) -> State {
        let mut tables: Vec<TableState> = p.tables.iter().map(TableState::new).collect();
        for (t, s) in p.tables.iter().zip(&mut tables) {
            for e in &t.entries {
                // The checker has made sure that these fit.
                let added = s.add(t, e.keys.clone(), e.priority, EntryAction::Call(e.action.clone()), true);
                if let Ok(id) = added
                    && let Some(x) = s.entry_mut(id)
                {
                    x.is_const = e.is_const;
                }
            }
        }
        State {
            tables,
            register_widths: p.registers.iter().map(|r| r.width).collect(),
            registers: Registers::new(&p.registers),
            counters: p.counters.iter().map(|c| vec![(0, 0); c.size.unwrap_or(0)]).collect(),
            meters: p.meters.iter().map(|m| vec![MeterCell::default(); m.size.unwrap_or(0)]).collect(),
            profiles: vec![ProfileState::default(); p.profiles.len()],
            value_sets: vec![Vec::new(); p.value_sets.len()],
            mirrors: BTreeMap::new(),
            groups: BTreeMap::new(),
            started_us: 0,
            rng: seed | 1,
        }
    }

    /// Number of cells of register `r`.
    pub fn register_size(&self, r: usize) -> usize {
        self.registers.cells(r).len()
    }

    /// The value of cell `i` of register `r`; `None` outside the register.
    pub fn register_get(&self, r: usize, i: usize) -> Option<Val> {
        match self.registers.cells(r) {
            Cells::Narrow(c) => c.get(i).map(|v| Val::S(*v as u128)),
            Cells::Wide(c) => c.get(i).cloned(),
        }
    }

    /// Writes a cell.
    ///
    /// # Errors
    /// There is no such cell, or the value does not fit it.
    pub fn register_set(&mut self, r: usize, i: usize, v: Val) -> Result<(), ChangeError> {
        let (n, w) = (self.register_size(r), self.register_widths[r]);
        if i >= n {
            return Err(ChangeError::NotFound(format!("index {i} is outside the register's {n} cells")));
        }
        if v.bits() > w {
            return Err(ChangeError::Invalid(format!("the value does not fit {w} bits")));
        }
        match self.registers.cells_mut(r) {
            CellsMut::Narrow(c) => c[i] = v.low() as u64,
            CellsMut::Wide(c) => c[i] = v,
        }
        Ok(())
    }

    /// Sets all cells of a register to zero.
    pub fn register_reset(&mut self, r: usize) {
        match self.registers.cells_mut(r) {
            CellsMut::Narrow(c) => c.fill(0),
            CellsMut::Wide(c) => c.fill(Val::S(0)),
        }
    }

    /// Cells of a register of at most 64 bits; none of a wider one.
    pub(crate) fn narrow_register(&mut self, r: usize) -> &mut [u64] {
        match self.registers.cells_mut(r) {
            CellsMut::Narrow(c) => c,
            CellsMut::Wide(_) => &mut [],
        }
    }

    pub(crate) fn wide_register(&mut self, r: usize) -> &mut [Val] {
        match self.registers.cells_mut(r) {
            CellsMut::Narrow(_) => &mut [],
            CellsMut::Wide(c) => c,
        }
    }

    /// The narrow registers' cells as native code sees them, in the order of the program.
    pub(crate) fn register_views(&self) -> *const View {
        self.registers.views()
    }

    /// Sets an indirect counter's cells to zero.
    pub fn counter_reset(&mut self, c: usize) {
        self.counters[c].fill((0, 0));
    }

    /// Time since an entry was matched, inserted, or given another idle timeout.
    pub fn idle_us(&self, e: &EntryState, now_us: u64) -> u64 {
        now_us.saturating_sub(e.last_hit_us.max(self.started_us))
    }

    /// Takes the random numbers on from where `other` has them.
    pub fn continue_random(&mut self, other: &State) {
        self.rng = other.rng;
    }

    /// xorshift64*: cheap, and the same everywhere for one seed.
    pub fn random(&mut self) -> u64 {
        self.rng ^= self.rng >> 12;
        self.rng ^= self.rng << 25;
        self.rng ^= self.rng >> 27;
        self.rng.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}
