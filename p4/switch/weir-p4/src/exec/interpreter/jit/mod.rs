// SPDX-License-Identifier: Apache-2.0
//! Native code of a program, made by cranelift from [`crate::bytecode::code`]: a function over the machine and its frame
//! for each procedure, parser and action. The interpreter is the reference. It runs what has no native code: traced
//! programs, programs and procedures beyond the limits here, other processors, systems without executable memory.
//!
//! A value is stored where its cell is set, and numbers of cells are checked when the code is compiled. Tables, values
//! of more than 128 bits and rare instructions call the machine. Its panics are caught before native code and go on
//! behind it. Unsafe code is in [`memory`] and [`shims`] alone.
mod arithmetic;
mod cells;
mod functions;
mod headers;
mod memory;
mod shims;
#[cfg(test)]
mod tests;
mod translate;
mod wide;

use crate::bytecode::code::{Code, Pc};
use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::{ExternalName, Function};
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_codegen::{Context, FinalizedRelocTarget};
use cranelift_frontend::FunctionBuilderContext;
use functions::{Body, body, entries};
use memory::Executable;
use rustc_hash::FxHashMap;
use shims::Shim;
use std::ffi::c_void;
use std::fmt;
use translate::{FUNCTIONS, SHIMS};

pub(crate) use shims::run;

/// Instructions of a program that has native code: compiling takes about a second for so many.
const PROGRAM_INSTRUCTIONS: usize = 100_000;

/// Bytes that native functions may take on the stack together when they call each other as deep as a program can: a
/// function with more than its share is interpreted.
const FRAME_BYTES: u32 = 2048;

/// No native function begins here.
const NONE: u32 = u32::MAX;

/// Native code of one program.
pub struct Native {
    memory: Executable,
    /// Where the function of each place in the code begins, or [`NONE`].
    offsets: Vec<u32>,
    /// Cells of the frame that the functions use.
    cells: usize,
    wide_cells: usize,
    bytes: usize,
}

impl fmt::Debug for Native {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let functions = self.offsets.iter().filter(|o| **o != NONE).count();
        write!(f, "Native {{ functions: {functions}, bytes: {} }}", self.bytes)
    }
}

impl Native {
    /// The function that does what the code from `pc` on does.
    pub(crate) fn function(&self, pc: Pc) -> Option<NativeFunction> {
        let offset = self.offsets.get(pc as usize).copied().filter(|o| *o != NONE)?;
        let (cells, wide_cells) = (self.cells, self.wide_cells);
        Some(NativeFunction { address: self.memory.address(offset), cells, wide_cells })
    }
}

/// A function of native code, valid for as long as [`Native`] is.
#[derive(Clone, Copy)]
pub(crate) struct NativeFunction {
    address: *const c_void,
    /// Cells of the frames that it is for.
    cells: usize,
    wide_cells: usize,
}

/// One function before it has a place: bytes, and the absolute addresses that it needs.
struct Compiled {
    entry: Pc,
    bytes: Vec<u8>,
    /// Offset, and a function by its number or a shim by its address.
    addresses: Vec<(u32, Target)>,
}

#[derive(Clone, Copy)]
enum Target {
    Function(u32),
    Shim(u32),
}

/// Compiles a program.
///
/// # Errors
/// Why it is interpreted, as text: another processor, too large, or no executable memory.
pub(crate) fn compile(code: &Code) -> Result<Native, String> {
    if code.ins.len() > PROGRAM_INSTRUCTIONS {
        return Err(format!("{} instructions, above {PROGRAM_INSTRUCTIONS}", code.ins.len()));
    }
    let isa = isa()?;
    let bodies: Vec<Body> = entries(code).into_iter().filter_map(|pc| body(code, pc)).collect();
    let numbers: FxHashMap<Pc, u32> = bodies.iter().zip(0..).map(|(b, i)| (b.entry, i)).collect();
    let (mut context, mut builder) = (Context::new(), FunctionBuilderContext::new());
    let mut functions = Vec::new();
    for body in &bodies {
        context.clear();
        context.func = Function::new();
        let parts = translate::Parts { code, body, numbers: &numbers, isa: &*isa };
        let is_compiled = translate::function(&parts, &mut context.func, &mut builder)
            && context.compile(&*isa, &mut ControlPlane::default()).is_ok();
        functions.push(if is_compiled { compiled(&context, body.entry) } else { None });
    }
    link(code, &functions)
}

/// The host's processor, if native code is made for it.
fn isa() -> Result<OwnedTargetIsa, String> {
    // Other processors need their instruction caches cleared, and tests of their own.
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Err(format!("no native code on {} and {}", std::env::consts::ARCH, std::env::consts::OS));
    }
    let mut flags = settings::builder();
    let is_tested = if cfg!(any(test, debug_assertions)) { "true" } else { "false" };
    for (name, value) in [("opt_level", "speed"), ("is_pic", "false"), ("enable_verifier", is_tested)] {
        flags.set(name, value).map_err(|e| format!("cranelift: {name}: {e}"))?;
    }
    let builder = cranelift_native::builder().map_err(|e| format!("cranelift: {e}"))?;
    builder.finish(settings::Flags::new(flags)).map_err(|e| format!("cranelift: {e}"))
}

/// The function that was compiled last; `None` where it needs an address of another kind, or too much of the stack.
fn compiled(context: &Context, entry: Pc) -> Option<Compiled> {
    let code = context.compiled_code()?;
    if code.frame_size > FRAME_BYTES {
        return None;
    }
    let names = context.func.params.user_named_funcs();
    let mut addresses = Vec::new();
    for r in code.buffer.relocs() {
        let FinalizedRelocTarget::ExternalName(ExternalName::User(name)) = &r.target else { return None };
        let name = &names[*name];
        let target = match name.namespace {
            FUNCTIONS => Target::Function(name.index),
            SHIMS => Target::Shim(name.index),
            _ => return None,
        };
        if r.kind != Reloc::Abs8 || r.addend != 0 {
            return None;
        }
        addresses.push((r.offset, target));
    }
    Some(Compiled { entry, bytes: code.buffer.data().to_vec(), addresses })
}

/// Gives the functions their places. One that calls a function which was not compiled is not compiled either.
fn link(code: &Code, functions: &[Option<Compiled>]) -> Result<Native, String> {
    const ALIGN: usize = 32;
    let kept = linkable(functions);
    let (mut offsets, mut places, mut len) = (vec![NONE; code.ins.len()], vec![0; functions.len()], 0usize);
    for (number, f) in kept.iter().enumerate() {
        let Some(f) = f else { continue };
        places[number] = len;
        offsets[f.entry as usize] = u32::try_from(len).map_err(|_| "more than 4 GiB of code")?;
        len += f.bytes.len().next_multiple_of(ALIGN);
    }
    if len == 0 {
        return Err("no function could be compiled".into());
    }
    let memory = Executable::new(len, |base| {
        let mut bytes = vec![0; len];
        for (f, at) in kept.iter().zip(&places) {
            let Some(f) = f else { continue };
            bytes[*at..at + f.bytes.len()].copy_from_slice(&f.bytes);
            for (offset, target) in &f.addresses {
                let address = match target {
                    Target::Function(number) => base + places[*number as usize],
                    Target::Shim(number) => Shim::address(*number),
                };
                let to = at + *offset as usize;
                bytes[to..to + 8].copy_from_slice(&(address as u64).to_le_bytes());
            }
        }
        Ok(bytes)
    })?;
    Ok(Native { memory, offsets, cells: code.frame.len(), wide_cells: code.wide_cells, bytes: len })
}

/// Functions all of whose callees are there.
fn linkable(functions: &[Option<Compiled>]) -> Vec<Option<&Compiled>> {
    let mut kept: Vec<Option<&Compiled>> = functions.iter().map(Option::as_ref).collect();
    loop {
        let is_missing = |t: &Target| matches!(t, Target::Function(n) if kept[*n as usize].is_none());
        let lost: Vec<usize> = (0..kept.len())
            .filter(|i| kept[*i].is_some_and(|f| f.addresses.iter().any(|(_, t)| is_missing(t))))
            .collect();
        if lost.is_empty() {
            return kept;
        }
        lost.into_iter().for_each(|i| kept[i] = None);
    }
}
