// SPDX-License-Identifier: Apache-2.0
//! Programs: replacing them, their descriptions, fresh state.
use super::Call;
use crate::p4runtime::{Missing, lock};
use crate::thrift::description;
use crate::thrift::failure::{Done, Failure, declared, internal};
use tonic::Status;

/// SwapOperationErrorCode.
const ONGOING_SWAP: i32 = 2;
const NO_ONGOING_SWAP: i32 = 3;

/// The description of a switch without a program, as BMv2 gives it.
const NO_PROGRAM: &str = "{}";

fn failed(e: Status) -> Failure {
    internal(e.message())
}

/// Verifies and saves a program. Further requests mean it, as BMv2's do, until it runs.
pub fn load(call: &mut Call<'_>) -> Done {
    let program = call.arguments.take_bytes(1);
    call.runtime.block_on(async {
        let control = &call.server.control;
        let config = control.verify(program).await.map_err(failed)?;
        let mut change = control.change().await;
        if change.has_saved() {
            return declared(ONGOING_SWAP, "another program waits for bm_swap_configs");
        }
        change.save(config).await.map_err(failed)
    })
}

pub fn swap(call: &mut Call<'_>) -> Done {
    call.runtime.block_on(async {
        let mut change = call.server.control.change().await;
        if !change.has_saved() {
            return declared(NO_ONGOING_SWAP, "no program waits; bm_load_new_config comes first");
        }
        change.commit().await.map_err(failed)
    })
}

pub fn reset(call: &mut Call<'_>) -> Done {
    call.runtime.block_on(async { call.server.control.change().await.reset().await }).map_err(failed)
}

/// Uses the description of the program.
fn described<R>(call: &mut Call<'_>, f: impl FnOnce(&mut Call<'_>, &str) -> Result<R, Failure>) -> Result<R, Failure> {
    let _one = lock(&call.server.texts);
    let text = text(call)?;
    f(call, &text)
}

fn text(call: &Call<'_>) -> Result<String, Failure> {
    let config = call.runtime.block_on(async { call.server.control.read().await.config() });
    match config {
        Ok(config) => Ok(description::text(&config)),
        Err(Missing::Program) => Ok(NO_PROGRAM.into()),
        Err(e) => Err(e.into()),
    }
}

pub fn config(call: &mut Call<'_>) -> Done {
    described(call, |call, text| call.out.text(0, text))
}

pub fn config_md5(call: &mut Call<'_>) -> Done {
    let sum = described(call, |_, text| Ok(md5::compute(text)))?;
    call.out.bytes_field(0, &*sum);
    Ok(())
}

/// IdLookupErrorCode.
const INVALID_RESOURCE_TYPE: i32 = 0;
const INVALID_RESOURCE_NAME: i32 = 1;

pub fn id_of_name(call: &mut Call<'_>) -> Done {
    let (kind, name) = (call.arguments.i32(2)?, call.arguments.string(3)?);
    if !(0..=5).contains(&kind) {
        return declared(INVALID_RESOURCE_TYPE, format!("{kind} is no BmResourceType"));
    }
    let Some(found) = described(call, |_, text| Ok(description::id(text, kind, &name)))? else {
        return declared(INVALID_RESOURCE_NAME, format!("there is no such object {name}"));
    };
    call.out.i32(0, found);
    Ok(())
}
