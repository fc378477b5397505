// SPDX-License-Identifier: Apache-2.0
//! One function: control flow, calls, registers, and calls of the machine. [`super::arithmetic`] has the operators,
//! [`super::cells`] the access to cells.
use super::functions::{Body, successors};
use super::shims::Shim;
use crate::bytecode::code::{Cell, Code, Instruction, Pc};
use crate::exec::interpreter::{FIELD_OFFSETS, Flow, PACKET_STEPS};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{
    AbiParam, AliasRegion, Block, ExtFuncData, ExternalName, FuncRef, Function, InstBuilder, MemFlags, SigRef,
    Signature, UserExternalName, Value,
};
use cranelift_codegen::isa::TargetIsa;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use rustc_hash::FxHashMap;

/// Namespaces of the functions that native code calls: native ones by number, and the machine's.
pub(super) const FUNCTIONS: u32 = 0;
pub(super) const SHIMS: u32 = 1;

/// A function's code, and all that it may refer to.
pub(super) struct Parts<'c> {
    pub(super) code: &'c Code,
    pub(super) body: &'c Body,
    /// Numbers of the functions, by entry.
    pub(super) numbers: &'c FxHashMap<Pc, u32>,
    pub(super) isa: &'c dyn TargetIsa,
}

/// Cells whose value is known: in a register, or a constant.
pub(super) type Known = FxHashMap<Cell, Value>;

/// A function under way.
pub(super) struct Translator<'c, 'f> {
    pub(super) code: &'c Code,
    parts: &'c Parts<'c>,
    pub(super) b: FunctionBuilder<'f>,
    pub(super) machine: Value,
    pub(super) frame: Value,
    blocks: FxHashMap<Pc, Block>,
    /// Returns its parameter.
    out: Block,
    pub(super) known: Known,
    /// Known values at the begin of a block, after the branches there that have been translated, and their number.
    incoming: FxHashMap<Pc, (Known, usize)>,
    pub(super) constants: FxHashMap<Cell, u64>,
    signature: SigRef,
    callees: FxHashMap<(u32, u32), FuncRef>,
    /// A number of the code is out of its range: there is no native function.
    pub(super) is_refused: bool,
}

/// Builds the function in `func`; false when it is interpreted.
pub(super) fn function(parts: &Parts<'_>, func: &mut Function, context: &mut FunctionBuilderContext) -> bool {
    let mut signature = Signature::new(parts.isa.default_call_conv());
    signature.params.extend([I64, I64, I32].map(AbiParam::new));
    signature.returns.push(AbiParam::new(I32));
    func.signature = signature.clone();
    let mut b = FunctionBuilder::new(func, context);
    let start = b.create_block();
    b.append_block_params_for_function_params(start);
    b.switch_to_block(start);
    let (machine, frame) = (b.block_params(start)[0], b.block_params(start)[1]);
    let blocks: FxHashMap<Pc, Block> = parts.body.leaders.keys().map(|pc| (*pc, b.create_block())).collect();
    let out = b.create_block();
    let signature = b.import_signature(signature);
    b.ins().jump(blocks[&parts.body.entry], &[]);
    let mut t = Translator {
        code: parts.code,
        parts,
        b,
        machine,
        frame,
        blocks,
        out,
        known: Known::default(),
        incoming: FxHashMap::default(),
        constants: parts.code.constants.iter().copied().collect(),
        signature,
        callees: FxHashMap::default(),
        is_refused: false,
    };
    t.blocks_in_order();
    t.exits();
    t.b.seal_all_blocks();
    t.b.finalize();
    !t.is_refused
}

impl Translator<'_, '_> {
    fn blocks_in_order(&mut self) {
        let parts = self.parts;
        let mut is_open = false;
        for pc in &parts.body.pcs {
            if let Some(ways) = parts.body.leaders.get(pc) {
                if is_open {
                    self.leaves_for(*pc);
                    let block = self.blocks[pc];
                    self.b.ins().jump(block, &[]);
                }
                self.begin(*pc, *ways);
            }
            let i = self.code.ins[*pc as usize];
            self.instruction(i, *pc);
            // Behind a branch the next block begins.
            is_open = matches!(successors(i, *pc), (Some(_), None));
        }
    }

    /// A branch to the block at `to`.
    fn leaves_for(&mut self, to: Pc) {
        match self.incoming.get_mut(&to) {
            None => {
                self.incoming.insert(to, (self.known.clone(), 1));
            }
            // A value that each branch has is there in the block too.
            Some((known, ways)) => {
                known.retain(|cell, value| self.known.get(cell) == Some(value));
                *ways += 1;
            }
        }
    }

    fn begin(&mut self, pc: Pc, ways: usize) {
        let block = self.blocks[&pc];
        self.b.switch_to_block(block);
        self.known = match self.incoming.remove(&pc) {
            Some((known, seen)) if seen == ways && pc != self.parts.body.entry => known,
            // A loop comes back to it with other values.
            _ => Known::default(),
        };
    }

    fn exits(&mut self) {
        let flow = self.b.append_block_param(self.out, I32);
        self.b.switch_to_block(self.out);
        self.b.ins().return_(&[flow]);
    }

    fn leave(&mut self, flow: Flow) {
        let flow = self.b.ins().iconst(I32, flow as i64);
        self.b.ins().return_(&[flow]);
    }

    fn instruction(&mut self, i: Instruction, pc: Pc) {
        if let Some((d, v)) = self.arithmetic(i) {
            return self.set(d, v);
        }
        if self.is_cell_access(i, pc) || self.is_jump(i, pc) || self.is_wide_access(i, pc) {
            return;
        }
        match i {
            Instruction::Call { to, after, cost } => self.call(to, after, cost),
            Instruction::Return => self.leave(Flow::Next),
            Instruction::Exit => self.leave(Flow::Exit),
            Instruction::Reject => self.leave(Flow::Reject),
            Instruction::Fail { error } => {
                let error = self.b.ins().iconst(I32, i64::from(error));
                self.fail(error);
            }
            Instruction::FailWith { a } => {
                let a = self.get(a);
                let error = self.b.ins().ireduce(I32, a);
                self.fail(error);
            }
            Instruction::ParserStep { cost } => {
                let (spent, go_on) = self.spend(cost);
                self.b.switch_to_block(spent);
                let error = self.b.ins().iconst(I32, i64::from(self.code.errors.timeout));
                self.fail(error);
                self.b.switch_to_block(go_on);
            }
            Instruction::LoopStep { cost } => self.spend_or_stop(cost),
            Instruction::RegisterRead { r, i, d } => self.register_read(r, i, d),
            Instruction::RegisterWrite { r, i, a } => self.register_write(r, i, a),
            Instruction::PacketLength { d } => self.load_field(d, FIELD_OFFSETS.length),
            Instruction::DropPort { d } => self.load_field(d, FIELD_OFFSETS.drop_port),
            Instruction::Apply { table } => self.shim(Shim::Apply, table),
            Instruction::Extract { header, size } => self.extract(header, size, pc),
            Instruction::Lookahead { header } => self.shim(Shim::Lookahead, header),
            Instruction::Emit { header } => self.emit(header),
            Instruction::Hash { .. } => self.shim(Shim::Hash, pc),
            _ => self.shim(Shim::Work, pc),
        }
    }

    fn is_jump(&mut self, i: Instruction, pc: Pc) -> bool {
        let (condition, a, b) = match i {
            Instruction::Jump { to } => {
                self.leaves_for(to);
                let block = self.blocks[&to];
                self.b.ins().jump(block, &[]);
                return true;
            }
            Instruction::JumpZero { a, .. } => (IntCC::Equal, a, None),
            Instruction::JumpSet { a, .. } => (IntCC::NotEqual, a, None),
            Instruction::JumpEq { a, b, .. } => (IntCC::Equal, a, Some(b)),
            Instruction::JumpNe { a, b, .. } => (IntCC::NotEqual, a, Some(b)),
            Instruction::JumpLt { a, b, .. } => (IntCC::UnsignedLessThan, a, Some(b)),
            Instruction::JumpLe { a, b, .. } => (IntCC::UnsignedLessThanOrEqual, a, Some(b)),
            _ => return false,
        };
        let a = self.get(a);
        let is_so = match b {
            Some(b) => {
                let b = self.get(b);
                self.b.ins().icmp(condition, a, b)
            }
            None => self.b.ins().icmp_imm(condition, a, 0),
        };
        let (Some(next), Some(to)) = successors(i, pc) else { return true };
        self.leaves_for(to);
        self.leaves_for(next);
        let (to, next) = (self.blocks[&to], self.blocks[&next]);
        self.b.ins().brif(is_so, to, &[], next, &[]);
        true
    }

    fn fail(&mut self, error: Value) {
        self.b.ins().store(machine_memory(), error, self.machine, FIELD_OFFSETS.error as i32);
        self.leave(Flow::Reject);
    }

    /// A machine's field of 32 bits.
    fn load_field(&mut self, d: Cell, offset: usize) {
        let v = self.b.ins().uload32(machine_memory(), self.machine, offset as i32);
        self.set(d, v);
    }

    /// Counts steps: the block for one too many, and the block where the code goes on.
    fn spend(&mut self, cost: u32) -> (Block, Block) {
        let at = FIELD_OFFSETS.steps as i32;
        let steps = self.b.ins().load(I64, machine_memory(), self.machine, at);
        let steps = self.b.ins().iadd_imm(steps, i64::from(cost));
        self.b.ins().store(machine_memory(), steps, self.machine, at);
        let is_spent = self.b.ins().icmp_imm(IntCC::UnsignedGreaterThan, steps, PACKET_STEPS as i64);
        let (spent, go_on) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(spent);
        self.b.ins().brif(is_spent, spent, &[], go_on, &[]);
        (spent, go_on)
    }

    fn spend_or_stop(&mut self, cost: u32) {
        let (spent, go_on) = self.spend(cost);
        self.b.switch_to_block(spent);
        let flow = self.call_shim(Shim::TooLong, 0);
        self.b.ins().return_(&[flow]);
        self.b.switch_to_block(go_on);
    }

    fn callee(&mut self, namespace: u32, index: u32) -> FuncRef {
        if let Some(callee) = self.callees.get(&(namespace, index)) {
            return *callee;
        }
        let name = self.b.func.declare_imported_user_function(UserExternalName { namespace, index });
        let data = ExtFuncData { name: ExternalName::User(name), signature: self.signature, colocated: false };
        let callee = self.b.import_function(data);
        self.callees.insert((namespace, index), callee);
        callee
    }

    fn call_function(&mut self, callee: FuncRef, number: u32) -> Value {
        let number = self.b.ins().iconst(I32, i64::from(number));
        let call = self.b.ins().call(callee, &[self.machine, self.frame, number]);
        self.known.clear();
        self.b.inst_results(call)[0]
    }

    fn call_shim(&mut self, shim: Shim, number: u32) -> Value {
        let callee = self.callee(SHIMS, shim as u32);
        self.call_function(callee, number)
    }

    fn call_code(&mut self, to: Pc) -> Value {
        match self.parts.numbers.get(&to) {
            Some(number) => {
                let callee = self.callee(FUNCTIONS, *number);
                self.call_function(callee, 0)
            }
            None => self.call_shim(Shim::Call, to),
        }
    }

    /// A call of the machine, that may end the function.
    pub(super) fn shim(&mut self, shim: Shim, number: u32) {
        let flow = self.call_shim(shim, number);
        let go_on = self.b.create_block();
        self.b.ins().brif(flow, self.out, &[flow.into()], go_on, &[]);
        self.b.switch_to_block(go_on);
    }

    fn call(&mut self, to: Pc, after: Pc, cost: u32) {
        self.spend_or_stop(cost);
        let flow = self.call_code(to);
        let go_on = self.b.create_block();
        if after == 0 {
            self.b.ins().brif(flow, self.out, &[flow.into()], go_on, &[]);
        } else {
            let exit = self.b.create_block();
            self.b.set_cold_block(exit);
            self.b.ins().brif(flow, exit, &[], go_on, &[]);
            self.b.switch_to_block(exit);
            // Results are copied out at `exit` too.
            let other = self.call_code(after);
            let flow = self.b.ins().select(other, other, flow);
            self.b.ins().return_(&[flow]);
        }
        self.b.switch_to_block(go_on);
    }

    /// The address of a register's cell, in a block that is reached when it is there; and the block for both cases.
    fn register_cell(&mut self, r: u32, i: Cell) -> (Value, Block) {
        let index = self.get(i);
        let fixed = MemFlags::trusted().with_readonly().with_can_move();
        let views = self.b.ins().load(I64, fixed, self.machine, FIELD_OFFSETS.registers as i32);
        let Some(at) = r.checked_mul(16).and_then(|at| i32::try_from(at).ok()).filter(|at| *at < i32::MAX - 8) else {
            self.is_refused = true;
            return (views, self.out);
        };
        let cells = self.b.ins().load(I64, fixed, views, at);
        let len = self.b.ins().load(I64, fixed, views, at + 8);
        let is_there = self.b.ins().icmp(IntCC::UnsignedLessThan, index, len);
        let (inside, go_on) = (self.b.create_block(), self.b.create_block());
        self.b.ins().brif(is_there, inside, &[], go_on, &[]);
        self.b.switch_to_block(inside);
        let offset = self.b.ins().ishl_imm(index, 3);
        (self.b.ins().iadd(cells, offset), go_on)
    }

    fn register_read(&mut self, r: u32, i: Cell, d: Cell) {
        let known = self.known.clone();
        let (cell, go_on) = self.register_cell(r, i);
        let v = self.b.ins().load(I64, register_memory(), cell, 0);
        self.store(d, v);
        self.b.ins().jump(go_on, &[]);
        self.b.switch_to_block(go_on);
        self.known = known;
        self.known.remove(&d);
    }

    fn register_write(&mut self, r: u32, i: Cell, a: Cell) {
        let a = self.get(a);
        let (cell, go_on) = self.register_cell(r, i);
        self.b.ins().store(register_memory(), a, cell, 0);
        self.b.ins().jump(go_on, &[]);
        self.b.switch_to_block(go_on);
    }
}

fn machine_memory() -> MemFlags {
    MemFlags::trusted().with_alias_region(Some(AliasRegion::Vmctx))
}

fn register_memory() -> MemFlags {
    MemFlags::trusted().with_alias_region(Some(AliasRegion::Table))
}
