// SPDX-License-Identifier: Apache-2.0
//! The streams of all controllers.
use super::roles::{Notices, Roles, StreamId};
use crate::p4runtime::proto::p4::v1::{StreamMessageResponse, stream_message_response::Update as Tell};
use std::collections::BTreeMap;
use tokio::sync::mpsc;
use tonic::Status;

/// Open streams at most.
pub const MAX_STREAMS: usize = 128;
/// Messages that wait for a controller to take them at most.
pub const QUEUE: usize = 1024;
/// Places in that queue kept for other messages than packets and digests.
const KEPT_FREE: usize = 64;

/// Controllers' streams.
pub struct Hub {
    pub roles: Roles,
    pub out: BTreeMap<StreamId, mpsc::Sender<Result<StreamMessageResponse, Status>>>,
    pub next: StreamId,
}

impl Hub {
    pub fn send(&mut self, id: StreamId, message: Tell) {
        let message = StreamMessageResponse { update: Some(message) };
        let Some(out) = self.out.get(&id) else { return };
        if out.try_send(Ok(message)).is_err() {
            // It has not read for so long that its queue is full, or it is closed: its stream ends here.
            self.out.remove(&id);
        }
    }

    pub fn tell(&mut self, notices: Notices) {
        for (id, m) in notices {
            self.send(id, Tell::Arbitration(m));
        }
    }

    /// Packets and digests are for primaries; a stream that is not read in time loses them.
    pub fn tell_primaries(&mut self, message: Tell) {
        let primaries: Vec<StreamId> = self.roles.primaries().collect();
        for id in primaries {
            if self.out.get(&id).is_some_and(|out| out.capacity() > KEPT_FREE) {
                self.send(id, message.clone());
            }
        }
    }

    /// A stream is over; true when its role has lost its primary by it.
    pub fn close(&mut self, id: StreamId) -> bool {
        self.out.remove(&id);
        let was_primary = self.roles.is_primary(id) == Some(true);
        let notices = self.roles.leave(id);
        self.tell(notices);
        was_primary
    }
}
