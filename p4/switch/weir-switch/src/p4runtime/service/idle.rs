// SPDX-License-Identifier: Apache-2.0
//! Notifications of idle entries. A sweep finds the entries whose timeout has passed; none runs while no entry has a
//! timeout.
use super::Service;
use crate::device::Device;
use crate::p4runtime::lock::lock;
use crate::p4runtime::proto::p4::v1::{
    self as pb, entity::Entity, stream_message_response::Update as Tell, update::Type,
};
use crate::p4runtime::read::Reader;
use crate::p4runtime::read::idle::Position;
use prost::Message as _;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// Two sweeps are at least so far apart, as in BMv2.
const INTERVAL: Duration = Duration::from_secs(1);
/// A sweep waits so long for further entries to expire, as PI does before it sends a notification.
const GATHER: Duration = Duration::from_millis(100);
/// Clients take messages of 4 MB by default.
const MESSAGE_BYTES: usize = 1 << 20;

/// Time of the next sweep.
#[derive(Default)]
pub struct IdleTimer {
    due: Mutex<Option<Instant>>,
    changed: Notify,
}

impl IdleTimer {
    /// An entry may expire in `us`.
    pub fn expect(&self, us: u64) {
        // A time that the clock can't hold never comes.
        let Some(at) = Instant::now().checked_add(Duration::from_micros(us)) else { return };
        let mut due = lock(&self.due);
        if due.is_none_or(|old| at < old) {
            *due = Some(at);
            self.changed.notify_one();
        }
    }

    /// Entries that a batch writes may expire.
    pub fn expect_written(&self, updates: &[pb::Update]) {
        let timeouts = updates.iter().filter(|u| u.r#type != Type::Delete as i32).filter_map(|u| {
            match u.entity.as_ref().and_then(|e| e.entity.as_ref()) {
                Some(Entity::TableEntry(e)) if e.idle_timeout_ns > 0 => Some(e.idle_timeout_ns.unsigned_abs() / 1000),
                _ => None,
            }
        });
        timeouts.min().into_iter().for_each(|us| self.expect(us));
    }

    /// Waits until a sweep is due and not before `earliest`.
    async fn wait(&self, earliest: Instant) {
        loop {
            let due = *lock(&self.due);
            let sleep = async {
                match due.and_then(|at| at.checked_add(GATHER)) {
                    Some(at) => sleep_until(at.max(earliest)).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = sleep => break,
                () = self.changed.notified() => {}
            }
        }
        *lock(&self.due) = None;
    }
}

impl Service {
    /// Notifies primaries of idle entries, until the switch ends.
    pub async fn watch_idle(self: Arc<Self>) {
        let mut earliest = Instant::now();
        loop {
            self.idle.wait(earliest).await;
            earliest = Instant::now() + INTERVAL;
            self.sweep_idle().await;
        }
    }

    async fn sweep_idle(&self) {
        let Some(live) = lock(&self.current).clone() else { return };
        let mut next = Some(Position::START);
        let (mut entries, mut bytes) = (Vec::new(), 0);
        while let Some(at) = next {
            let live = live.clone();
            let job = move |d: &mut Device| {
                let now_us = d.now_us();
                let p = d.pipeline.as_ref().filter(|p| p.generation == live.generation)?;
                let mut controller = lock(&live.controller);
                let piece = Reader { config: &live.config, state: &p.switch.state, controller: &controller, now_us }
                    .expired(at);
                for (table, id, _) in &piece.expired {
                    controller.notified(*table, *id, now_us);
                }
                Some(piece)
            };
            // The program was replaced, or the switch has ended.
            let Ok(Some(piece)) = self.handle.call(job).await else { return };
            piece.soonest_us.into_iter().for_each(|us| self.idle.expect(us));
            for (_, _, entry) in piece.expired {
                bytes += entry.encoded_len() + 8;
                entries.push(entry);
                if bytes >= MESSAGE_BYTES {
                    bytes = 0;
                    self.notify_idle(std::mem::take(&mut entries));
                }
            }
            next = piece.next;
        }
        self.notify_idle(entries);
    }

    fn notify_idle(&self, table_entry: Vec<pb::TableEntry>) {
        if table_entry.is_empty() {
            return;
        }
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let message = pb::IdleTimeoutNotification { table_entry, timestamp: since_epoch.as_nanos() as i64 };
        lock(&self.hub).tell_primaries(Tell::IdleTimeoutNotification(message));
    }
}
