// SPDX-License-Identifier: Apache-2.0
//! Entries of tables: reads.
use super::Call;
use super::matches::{self, action_entry, entry};
use crate::p4runtime::Reader;
use crate::thrift::failure::{Done, Failure, declared, table as code};
use crate::thrift::output::{Output, pieces};
use thrift::protocol::TType;
use weir_p4::exec::EntryId;

/// Places read without a packet in between.
const PIECE: usize = 512;

/// All entries, in the order of their places.
pub fn all(call: &mut Call<'_>) -> Done {
    let name = call.arguments.string(2)?;
    let (out, runtime, control) = (&mut call.out, call.runtime, &call.server.control);
    runtime.block_on(async {
        let reading = control.read().await;
        let begin = move |r: &Reader<'_>| {
            let at = matches::table(&r.config.program, &name)?;
            Ok::<_, Failure>((at, r.state.tables[at].len(), r.state.tables[at].places()))
        };
        let (at, count, places) = reading.step(begin).await??;
        out.list(0, TType::Struct, count);
        pieces(out, places, PIECE, |range| {
            let piece = move |r: &Reader<'_>| {
                let mut part = Output::part();
                let ids: Vec<EntryId> = r.state.tables[at].entries_in(range).map(|(id, _)| id).collect();
                ids.into_iter().for_each(|id| part.element(|out| entry(out, r, at, id)));
                part.into_bytes()
            };
            async { Ok(reading.step(piece).await?) }
        })
        .await
    })
}

/// Writes a struct that `body` makes on the packet thread.
fn made(call: &mut Call<'_>, body: impl FnOnce(&Reader<'_>, &mut Output) -> Done + Send + 'static) -> Done {
    let bytes = call.read(move |r| {
        let mut part = Output::part();
        let mut result = Ok(());
        part.nested(0, |out| result = body(r, out));
        result.map(|()| part.into_bytes())
    })?;
    call.out.append(&bytes)
}

pub fn one(call: &mut Call<'_>) -> Done {
    let (name, handle) = (call.arguments.string(2)?, call.arguments.i32(3)?);
    made(call, move |r, out| {
        let at = matches::table(&r.config.program, &name)?;
        let id = matches::entry_id(&r.state.tables[at], handle)?;
        entry(out, r, at, id);
        Ok(())
    })
}

pub fn default_entry(call: &mut Call<'_>) -> Done {
    let name = call.arguments.string(2)?;
    made(call, move |r, out| {
        let at = matches::table(&r.config.program, &name)?;
        action_entry(out, r, &r.config.program.tables[at], &r.state.tables[at].default);
        Ok(())
    })
}

/// The entry with a key; without a key, the default entry.
pub fn by_key(call: &mut Call<'_>) -> Done {
    let arguments = std::mem::take(&mut call.arguments);
    made(call, move |r, out| {
        let name = arguments.string(2)?;
        let at = matches::table(&r.config.program, &name)?;
        let t = &r.config.program.tables[at];
        let params = arguments.structs(3)?;
        if params.is_empty() {
            out.list(1, TType::Struct, 0);
            out.nested(2, |_| {});
            out.i32(3, 0);
            out.nested(4, |out| action_entry(out, r, t, &r.state.tables[at].default));
            return Ok(());
        }
        let keys = matches::keys(t, &params)?;
        let Some(id) = r.state.tables[at].find(&keys, matches::rank(t, arguments.fields(4)?)) else {
            return declared(code::BAD_MATCH_KEY, format!("table {name} has no entry with this key"));
        };
        entry(out, r, at, id);
        Ok(())
    })
}
