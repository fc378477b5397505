// SPDX-License-Identifier: Apache-2.0
//! StreamChannel: messages of controllers.
use super::{Service, no_program};
use crate::p4runtime::lock::lock;
use crate::p4runtime::messages::error::{At, Fail, Res, denied, invalid, precondition, unimplemented};
use crate::p4runtime::messages::packets;
use crate::p4runtime::proto::p4::v1::{
    self as pb, StreamMessageRequest, StreamMessageResponse, stream_error, stream_message_request::Update as Ask,
    stream_message_response::Update as Tell,
};
use crate::p4runtime::stream::hub::{MAX_STREAMS, QUEUE};
use crate::p4runtime::stream::roles::{StreamId, number};
use crate::p4runtime::transport::access::{Caller, Right};
use std::sync::Arc;
use tokio::sync::mpsc;
use tonic::{Code, Status, Streaming};
use weir_p4::p4info::Preambled;

/// Ends a stream's part in arbitration however its task ends.
struct Session {
    service: Arc<Service>,
    id: StreamId,
}

impl Drop for Session {
    fn drop(&mut self) {
        if lock(&self.service.hub).close(self.id) {
            lock(&self.service.digests).forget();
        }
    }
}

impl Service {
    pub(super) fn open(&self) -> Result<(StreamId, mpsc::Receiver<Result<StreamMessageResponse, Status>>), Status> {
        let mut hub = lock(&self.hub);
        if hub.out.len() >= MAX_STREAMS {
            return Err(Status::resource_exhausted(format!("{MAX_STREAMS} streams are open, the most there can be")));
        }
        let (sender, receiver) = mpsc::channel(QUEUE);
        hub.next += 1;
        let id = hub.next;
        hub.out.insert(id, sender);
        Ok((id, receiver))
    }

    /// Serves a stream until its controller ends it or an error does.
    pub(super) async fn stream(
        self: Arc<Self>,
        id: StreamId,
        mut input: Streaming<StreamMessageRequest>,
        caller: Caller,
    ) {
        let session = Session { service: self.clone(), id };
        // An error here is the connection's end.
        while let Ok(Some(m)) = input.message().await {
            if let Err(e) = self.message(id, m, &caller).await {
                if let Some(out) = lock(&self.hub).out.get(&id) {
                    // With the queue full it has not read for long, and goes without the reason.
                    let _ = out.try_send(Err(e.status()));
                }
                break;
            }
            if !lock(&self.hub).out.contains_key(&id) {
                break;
            }
        }
        drop(session);
    }

    /// A message of a controller. An error ends its stream.
    async fn message(&self, id: StreamId, m: StreamMessageRequest, caller: &Caller) -> Res<()> {
        let error = match m.update {
            Some(Ask::Arbitration(a)) => return self.arbitrate(id, &a, caller).await,
            Some(Ask::Packet(p)) => match self.packet_out(id, &p, caller).await {
                Ok(()) => return Ok(()),
                Err(e) => {
                    let details = pb::PacketOutError { packet_out: Some(p) };
                    (e, stream_error::Details::PacketOut(details))
                }
            },
            Some(Ask::DigestAck(a)) => match self.digest_ack(id, &a) {
                Ok(()) => return Ok(()),
                Err(e) => {
                    let details = pb::DigestListAckError { digest_list_ack: Some(a) };
                    (e, stream_error::Details::DigestListAck(details))
                }
            },
            Some(Ask::Other(other)) => {
                let details = pb::StreamOtherError { other: Some(other) };
                (unimplemented("no other messages are known").under("other"), stream_error::Details::Other(details))
            }
            None => {
                let details = pb::StreamOtherError { other: None };
                (invalid("is unset").under("update"), stream_error::Details::Other(details))
            }
        };
        let (e, details) = error;
        let message = pb::StreamError {
            canonical_code: e.code as i32,
            message: e.to_string(),
            details: Some(details),
            ..Default::default()
        };
        lock(&self.hub).send(id, Tell::Error(message));
        Ok(())
    }

    /// Takes a stream into arbitration. To claim to be primary is a change, with a line in the audit.
    async fn arbitrate(&self, id: StreamId, a: &pb::MasterArbitrationUpdate, caller: &Caller) -> Res<()> {
        let result = match number(&a.election_id) {
            // A client with the right to read only can listen, and never becomes primary.
            Some(_) => caller.may("arbitration.election_id, a claim to be primary,", &[Right::Write, Right::Pipeline]),
            None => Ok(()),
        };
        let result = match result {
            Ok(()) => {
                // In-flight requests of the primary so far are finished first.
                let _quiet = self.change().await;
                let mut hub = lock(&self.hub);
                hub.roles.arbitrate(id, a).at(|| "arbitration").map(|notices| {
                    if notices.len() > 1 {
                        lock(&self.digests).forget();
                    }
                    hub.tell(notices);
                })
            }
            Err(refused) => Err(refused),
        };
        if self.audit.is_on()
            && let Some(election) = number(&a.election_id)
        {
            let mut line = caller.entry("arbitration").of_role(a.role.as_ref().map_or("", |r| &r.name));
            line.election_id = Some(election.to_string());
            line.primary = Some(lock(&self.hub).roles.is_primary(id) == Some(true));
            self.audit.record(&line.ended(&result.as_ref().map_err(Fail::status)));
        }
        result
    }

    fn is_primary(&self, id: StreamId) -> Res<()> {
        match lock(&self.hub).roles.is_primary(id) {
            Some(true) => Ok(()),
            Some(false) => Err(denied("only its role's primary may send this")),
            None => Err(denied("an arbitration update must come first")),
        }
    }

    async fn packet_out(&self, id: StreamId, p: &pb::PacketOut, caller: &Caller) -> Res<()> {
        if let Err(refused) = caller.may("packet-out", &[Right::Write]) {
            self.audit.record(&caller.entry("packet-out").ended::<()>(&Err(refused.status())));
            return Err(refused);
        }
        self.is_primary(id)?;
        if self.cpu_port.is_none() {
            return Err(precondition("the switch has no CPU port; start it with --cpu-port"));
        }
        let Some(live) = lock(&self.current).clone() else { return Err(no_program()) };
        let frame = packets::packet_out(&live.config.program.info, p).at(|| "packet")?;
        let inject = self.handle.call(move |d| d.inject(frame)).await;
        inject.map_err(|e| Fail::new(Code::Unavailable, e.to_string()))
    }

    fn digest_ack(&self, id: StreamId, a: &pb::DigestListAck) -> Res<()> {
        self.is_primary(id)?;
        let Some(live) = lock(&self.current).clone() else { return Err(no_program()) };
        let list = &live.config.program.info.digests;
        let Some(at) = list.iter().position(|d| d.id() == a.digest_id) else {
            let m = format!("the program has no digest with id 0x{:08x}", a.digest_id);
            return Err(invalid(m).under("digest_ack.digest_id"));
        };
        // A list that has timed out is none the controller could know of.
        lock(&self.digests).acknowledge(at, a.list_id);
        Ok(())
    }
}
