// SPDX-License-Identifier: Apache-2.0
//! Names, types and compile-time values, and the lowering of checked code to [`crate::bytecode::ir`], in one walk: a
//! block is lowered once per instance, with its constructor arguments known. Code that is never instantiated is walked
//! too and thrown away, so that errors in it show.
mod blocks;
mod calls;
mod context;
mod declarations;
mod def_use;
mod expressions;
mod externs;
mod limits;
mod notes;
pub(crate) mod p4info;
mod prelude;
mod resolve;
mod statements;
mod target_limits;
mod types;
mod values;

use crate::bytecode::CALL_DEPTH;
use crate::syntax::diagnostics::Diagnostics;
use prelude::*;

/// Checks and lowers a whole program. `None`, with errors recorded, when it is not accepted.
pub fn compile(decls: &[Decl], diagnostics: &mut Diagnostics) -> Option<Program> {
    let mut context = Context::new(diagnostics);
    let mut last = Span::default();
    for decl in decls {
        last = decl.name.span;
        // The error is recorded; later declarations are still worth checking.
        if context.top(decl).is_err() {
            context.failed.insert(decl.name.text.clone());
        }
    }
    if context.diagnostics.has_errors() {
        return None;
    }
    let Some((ty, args, span)) = context.main.take() else {
        let help = "end the program with `V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyCompute(), \
                    MyDeparser()) main;`";
        context.diagnostics.error_help(last, "the program has no `main` package", help);
        return None;
    };
    context.build_main(&ty, args, span).ok()?;
    context.resolve_extern_parameters();
    let depth = context.program.call_depth();
    if depth > CALL_DEPTH {
        let m = format!(
            "unsupported: {depth} actions, functions or controls that call each other; the most are {CALL_DEPTH}"
        );
        context.diagnostics.error(span, m);
        return None;
    }
    def_use::warn(decls, context.diagnostics);
    context.program.info = Arc::new(context.p4info().ok()?);
    Some(context.program)
}
