// SPDX-License-Identifier: Apache-2.0
//! Entries of tables and their defaults: changes.
use super::Call;
use super::matches::{self, Kind, changeable, handle, table_of};
use crate::p4runtime::Writer;
use crate::thrift::failure::{Done, Failure, declared, table as code};
use weir_p4::exec::{ChangeError, EntryAction};

/// Entries removed without a packet in between.
const PIECE: usize = 512;

fn changed<T>(result: Result<T, ChangeError>) -> Result<T, Failure> {
    let code = |e: &ChangeError| match e {
        ChangeError::NotFound(_) => code::INVALID_HANDLE,
        ChangeError::Exists(_) => code::DUPLICATE_ENTRY,
        ChangeError::Invalid(_) => code::ERROR,
        ChangeError::Full(_) => code::FULL,
    };
    result.or_else(|e| declared(code(&e), e.to_string()))
}

pub fn count(call: &mut Call<'_>) -> Done {
    let name = call.arguments.string(2)?;
    let count = call.read(move |r| Ok(r.state.tables[matches::table(&r.config.program, &name)?].len()))?;
    call.out.i64(0, count as i64);
    Ok(())
}

pub fn clear(call: &mut Call<'_>) -> Done {
    let (name, default) = (call.arguments.string(2)?, call.arguments.bool(3)?);
    call.runtime.block_on(async {
        let mut change = call.server.control.change().await;
        let begin = move |w: &mut Writer<'_>| {
            let at = matches::table(&w.config.program, &name)?;
            if w.config.program.tables[at].const_entries {
                return declared(code::IMMUTABLE_TABLE_ENTRIES, format!("the entries of table {name} are constant"));
            }
            if default {
                reset(w, at)?;
            }
            Ok((at, w.state.tables[at].places()))
        };
        let (at, places) = change.step(begin).await??;
        for from in (0..places).step_by(PIECE) {
            let piece = move |w: &mut Writer<'_>| {
                let entries = w.state.tables[at].entries_in(from..from + PIECE);
                let ids: Vec<_> = entries.filter(|(_, e)| !e.is_const).map(|(id, _)| id).collect();
                ids.into_iter()
                    .try_for_each(|id| w.remove(at, id))
                    .map_err(|e| Failure::Declared(code::ERROR, e.message))
            };
            change.step(piece).await??;
        }
        Ok(())
    })
}

/// Adds an entry whose action `action` finds.
fn insert(
    call: &mut Call<'_>,
    kind: Kind,
    options: i16,
    action: impl FnOnce(&Writer<'_>, usize) -> Result<EntryAction, Failure> + Send + 'static,
) -> Done {
    let arguments = std::mem::take(&mut call.arguments);
    let handle = call.change(move |w| {
        let name = arguments.string(2)?;
        let at = table_of(&w.config.program, &name, kind)?;
        let t = &w.config.program.tables[at];
        if t.keys.is_empty() {
            return declared(code::NO_TABLE_KEY, format!("table {name} has no key"));
        }
        if t.const_entries {
            return declared(code::IMMUTABLE_TABLE_ENTRIES, format!("the entries of table {name} are constant"));
        }
        let keys = matches::keys(t, &arguments.structs(3)?)?;
        let rank = matches::rank(t, arguments.fields(options)?);
        let action = action(w, at)?;
        changed(w.add_entry(at, keys, rank, action)).map(handle)
    })?;
    call.out.i32(0, handle);
    Ok(())
}

/// The action of a direct table's entry, from two arguments.
fn own_action(
    call: &Call<'_>,
    first: i16,
) -> Result<impl FnOnce(&Writer<'_>, usize) -> Result<EntryAction, Failure> + Send + 'static, Failure> {
    let name = call.arguments.string(first)?;
    let data: Vec<Vec<u8>> = call.arguments.byte_lists(first + 1)?.into_iter().map(<[u8]>::to_vec).collect();
    Ok(move |w: &Writer<'_>, at: usize| {
        let data: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
        Ok(EntryAction::Call(matches::call(&w.config.program.tables[at], &name, &data)?))
    })
}

/// The member of a handle.
fn member(handle: i32) -> impl FnOnce(&Writer<'_>, usize) -> Result<EntryAction, Failure> + Send + 'static {
    move |w, at| {
        let profile = w.config.program.tables[at].profile;
        let id = profile.and_then(|p| w.controller.handles[p].member(handle as u32));
        id.map_or_else(
            || declared(code::INVALID_MBR_HANDLE, format!("there is no member with handle {handle}")),
            |id| Ok(EntryAction::Member(id)),
        )
    }
}

/// The group of a handle.
fn group(handle: i32) -> impl FnOnce(&Writer<'_>, usize) -> Result<EntryAction, Failure> + Send + 'static {
    move |w, at| {
        let profile = w.config.program.tables[at].profile;
        let id = profile.and_then(|p| w.controller.group_handles[p].member(handle as u32));
        id.map_or_else(
            || declared(code::INVALID_GRP_HANDLE, format!("there is no group with handle {handle}")),
            |id| Ok(EntryAction::Group(id)),
        )
    }
}

pub fn add(call: &mut Call<'_>) -> Done {
    let action = own_action(call, 4)?;
    insert(call, Kind::Direct, 6, action)
}

pub fn add_indirect(call: &mut Call<'_>) -> Done {
    let action = member(call.arguments.i32(4)?);
    insert(call, Kind::Members, 5, action)
}

pub fn add_grouped(call: &mut Call<'_>) -> Done {
    let action = group(call.arguments.i32(4)?);
    insert(call, Kind::Groups, 5, action)
}

fn update(
    call: &Call<'_>,
    kind: Kind,
    action: impl FnOnce(&Writer<'_>, usize) -> Result<EntryAction, Failure> + Send + 'static,
) -> Done {
    let (name, handle) = (call.arguments.string(2)?, call.arguments.i32(3)?);
    call.change(move |w| {
        let at = table_of(&w.config.program, &name, kind)?;
        let id = changeable(w, at, handle)?;
        let action = action(w, at)?;
        changed(w.set_action(at, id, action))
    })
}

pub fn modify(call: &mut Call<'_>) -> Done {
    update(call, Kind::Direct, own_action(call, 4)?)
}

pub fn modify_indirect(call: &mut Call<'_>) -> Done {
    update(call, Kind::Members, member(call.arguments.i32(4)?))
}

pub fn modify_grouped(call: &mut Call<'_>) -> Done {
    update(call, Kind::Groups, group(call.arguments.i32(4)?))
}

fn remove(call: &Call<'_>, kind: Kind) -> Done {
    let (name, handle) = (call.arguments.string(2)?, call.arguments.i32(3)?);
    call.change(move |w| {
        let at = table_of(&w.config.program, &name, kind)?;
        let id = changeable(w, at, handle)?;
        w.remove(at, id).map_err(|e| Failure::Declared(code::ERROR, e.message))
    })
}

pub fn delete(call: &mut Call<'_>) -> Done {
    remove(call, Kind::Direct)
}

pub fn delete_indirect(call: &mut Call<'_>) -> Done {
    remove(call, Kind::Members)
}

fn timeout(call: &Call<'_>, kind: Kind) -> Done {
    let (name, handle, ms) = (call.arguments.string(2)?, call.arguments.i32(3)?, call.arguments.i32(4)?);
    // BMv2 takes it for an unsigned number.
    let ms = ms as u32;
    call.change(move |w| {
        let at = table_of(&w.config.program, &name, kind)?;
        if !w.config.program.tables[at].idle_timeout {
            return declared(code::AGEING_DISABLED, format!("table {name} has no timeouts"));
        }
        let id = matches::entry_id(&w.state.tables[at], handle)?;
        w.set_timeout(at, id, ms);
        Ok(())
    })?;
    if ms > 0 {
        call.server.control.expect_idle(u64::from(ms) * 1000);
    }
    Ok(())
}

pub fn set_timeout(call: &mut Call<'_>) -> Done {
    timeout(call, Kind::Direct)
}

pub fn set_timeout_indirect(call: &mut Call<'_>) -> Done {
    timeout(call, Kind::Members)
}

fn put_default(
    call: &Call<'_>,
    kind: Kind,
    action: impl FnOnce(&Writer<'_>, usize) -> Result<EntryAction, Failure> + Send + 'static,
) -> Done {
    let name = call.arguments.string(2)?;
    call.change(move |w| {
        let at = table_of(&w.config.program, &name, kind)?;
        if w.config.program.tables[at].const_default {
            return declared(code::DEFAULT_ENTRY_IS_CONST, format!("the default action of table {name} is constant"));
        }
        let action = action(w, at)?;
        changed(w.set_default(at, action))
    })
}

pub fn set_default(call: &mut Call<'_>) -> Done {
    put_default(call, Kind::Direct, own_action(call, 3)?)
}

pub fn set_default_member(call: &mut Call<'_>) -> Done {
    put_default(call, Kind::Members, member(call.arguments.i32(3)?))
}

pub fn set_default_group(call: &mut Call<'_>) -> Done {
    put_default(call, Kind::Groups, group(call.arguments.i32(3)?))
}

/// Gives a table the program's default action.
fn reset(w: &mut Writer<'_>, at: usize) -> Done {
    let t = &w.config.program.tables[at];
    if t.const_default {
        return Ok(());
    }
    changed(w.set_default(at, EntryAction::Call(t.default.clone())))
}

pub fn reset_default(call: &mut Call<'_>) -> Done {
    let name = call.arguments.string(2)?;
    call.change(move |w| {
        let at = matches::table(&w.config.program, &name)?;
        reset(w, at)
    })
}
