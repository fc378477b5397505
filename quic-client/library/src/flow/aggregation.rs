// SPDX-License-Identifier: Apache-2.0
//! [`Aggregation`]: the flows of one aggregated download, each on its own path.

use super::Reactor;
use std::time::Instant;
use weir_core::client::aggregate::Aggregate;

/// The flows of one aggregated download. Flow n of the reactor is connection n of the download, on path n.
pub struct Aggregation {
    /// Their common state.
    pub download: Aggregate,
    /// Name of each path.
    pub paths: Vec<String>,
}

impl Aggregation {
    /// A flow was served: others may have something to do now.
    pub fn served(&self, reactor: &mut Reactor, index: usize, now: Instant) {
        let outcome = reactor.flow_mut(index).and_then(|flow| flow.outcome().cloned());
        if let Some(outcome) = outcome {
            self.download.left(index, &outcome, now);
        }
        for link in self.download.take_freed() {
            if let Some((flow, context)) = reactor.live_mut(link) {
                flow.use_all_paths(context, now);
            }
        }
        self.download.take_wakes().into_iter().for_each(|link| reactor.touch(link));
    }
}
