// SPDX-License-Identifier: Apache-2.0
//! Messages of the switch to controllers: packets and digests.
use super::{Live, Service};
use crate::device::Event;
use crate::p4runtime::lock::lock;
use crate::p4runtime::messages::packets;
use crate::p4runtime::proto::p4::v1::{self as pb, stream_message_response::Update as Tell};
use crate::p4runtime::stream::digests::List;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc;
use weir_p4::exec::DigestData;
use weir_p4::p4info::Preambled;

impl Service {
    /// Passes on the switch's events, until it ends.
    pub async fn pump(self: Arc<Self>, mut events: mpsc::Receiver<Event>) {
        loop {
            let next = lock(&self.digests).next_ns();
            let wait = async {
                match next {
                    Some(at) => {
                        tokio::time::sleep(std::time::Duration::from_nanos(at.saturating_sub(self.now_ns()))).await
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                event = events.recv() => match event {
                    Some(event) => self.event(event).await,
                    None => return,
                },
                () = wait => {}
                () = self.digests_changed.notified() => {}
            }
            let due = lock(&self.digests).due(self.now_ns());
            due.into_iter().for_each(|list| self.send_digests(list));
        }
    }

    /// The program of that generation, unless it was replaced.
    async fn live(&self, generation: u64) -> Option<Arc<Live>> {
        let newer = |l: &Option<Arc<Live>>| l.as_ref().is_none_or(|l| l.generation < generation);
        if newer(&lock(&self.current)) {
            // It is being put in at this moment.
            let _put_in = self.pipelines.read().await;
        }
        lock(&self.current).clone().filter(|l| l.generation == generation)
    }

    async fn event(&self, event: Event) {
        match event {
            Event::PacketIn { generation, bytes } => {
                let Some(live) = self.live(generation).await else { return };
                if let Some(m) = packets::packet_in(&live.config.program.info, bytes) {
                    lock(&self.hub).tell_primaries(Tell::Packet(m));
                }
            }
            Event::Digest { generation, data: DigestData { digest, values, .. }, .. } => {
                let Some(live) = self.live(generation).await else { return };
                let at = live.config.program.info.digests.iter().position(|d| d.ir_index == digest);
                let full = at.and_then(|at| lock(&self.digests).push(at, values, self.now_ns()));
                full.into_iter().for_each(|list| self.send_digests(list));
            }
            // P4Runtime has no message for it.
            Event::PortStatus { .. } => {}
        }
    }

    fn send_digests(&self, list: List) {
        let Some(live) = lock(&self.current).clone() else { return };
        let Some(layout) = live.config.digests.get(list.digest) else { return };
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let message = pb::DigestList {
            digest_id: live.config.program.info.digests[list.digest].id(),
            list_id: list.list_id,
            data: list.messages.into_iter().map(|values| layout.encode(&mut values.into_iter())).collect(),
            timestamp: since_epoch.as_nanos() as i64,
        };
        lock(&self.hub).tell_primaries(Tell::Digest(message));
    }
}
