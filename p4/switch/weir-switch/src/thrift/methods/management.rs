// SPDX-License-Identifier: Apache-2.0
//! Facts about the switch, and methods whose objects this switch does not have.
use super::Call;
use crate::thrift::failure::{Done, Failure, declared};
use thrift::ApplicationErrorKind;
use thrift::protocol::TType;

pub fn info(call: &mut Call<'_>) -> Done {
    let (device_id, port) = (call.server.control.device_id(), call.server.addr.port());
    call.out.nested(0, |out| {
        out.i64(1, device_id as i64);
        out.i32(2, i32::from(port));
    });
    Ok(())
}

pub fn ports(call: &mut Call<'_>) -> Done {
    let up = call.device(|d| d.ports_up.clone())?;
    let ports = &call.server.switch.ports;
    call.out.list(0, TType::Struct, ports.len());
    for (port, name) in ports {
        call.out.element(|out| {
            out.i32(1, *port as i32);
            out.bytes_field(2, name.as_bytes());
            out.bool(3, up.get(port).copied().unwrap_or(false));
            out.empty_map(4);
        });
    }
    Ok(())
}

pub fn ports_are_fixed(_: &mut Call<'_>) -> Done {
    declared(1, "interfaces are given at the start (-i); ports can't be added or removed")
}

pub fn learning(_: &mut Call<'_>) -> Done {
    declared(3, "digests go to P4Runtime's controllers; there are no learning buffers")
}

pub fn custom_crc(_: &mut Call<'_>) -> Done {
    declared(1, "programs with custom CRCs are unsupported, so there is no such calculation")
}

pub fn toeplitz(_: &mut Call<'_>) -> Done {
    declared(1, "programs with Toeplitz hashes are unsupported, so there is no such calculation")
}

pub fn serialize(_: &mut Call<'_>) -> Done {
    let reason = "bm_serialize_state is unsupported: this switch does not restore state";
    Err(Failure::Application(ApplicationErrorKind::Unknown, reason.into()))
}
