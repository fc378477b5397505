// SPDX-License-Identifier: Apache-2.0
//! TIMESTAMP frames over real connections: a sender learns on which of the two ways its packets are late.

use crate::pair::{config, plain, Pair};
use quiche::hooks::{self, RttSample, Timestamps};
use std::time::{Duration, Instant};

const DELAY: Duration = Duration::from_millis(10);

fn pair(client: Timestamps, server: Timestamps) -> Pair {
    let configs = [client, server].map(|timestamps| {
        let mut config = config();
        config.set_initial_max_data(4_000_000);
        config.set_initial_max_stream_data_bidi_local(4_000_000);
        hooks::set_timestamps(&mut config, timestamps);
        config
    });
    let [mut client, mut server] = configs;
    let mut pair = Pair::new(&mut client, &mut server, 10_000_000, DELAY);
    pair.establish(&mut plain);
    pair
}

/// The server's last sample of a download of so many bytes, once all is quiet.
fn sample(pair: &mut Pair, stream: u64, bytes: u64) -> RttSample {
    let streams = pair.finished_streams + 1;
    pair.request([stream], bytes);
    pair.run(&mut plain, |p| p.finished_streams == streams && p.next().is_none_or(|t| t > Instant::now() + 20 * DELAY));
    pair.server_sample.unwrap()
}

/// By how much the round trip and the way there became longer, to a millisecond, since times on the wire are in units of 8 us.
fn longer_ms(before: RttSample, after: RttSample) -> (f64, f64) {
    let there_ns = after.there_ns.unwrap() - before.there_ns.unwrap();
    let round_trip_s = after.rtt.as_secs_f64() - before.rtt.as_secs_f64();
    ((round_trip_s * 1e3).round(), (there_ns as f64 / 1e6).round())
}

#[test]
fn a_sender_knows_on_which_way_its_packets_are_late() {
    let mut pair = pair(Timestamps::Offered, Timestamps::WantedAndOffered);
    assert!(hooks::gets_timestamps(&pair.server) && !hooks::gets_timestamps(&pair.client));
    let calm = sample(&mut pair, 0, 1000);
    pair.more_delay_up = Duration::from_millis(7);
    let late_back = sample(&mut pair, 4, 1000);
    assert_eq!(longer_ms(calm, late_back), (7.0, 0.0));
    pair.delay += Duration::from_millis(5); // of both ways
    let late_both = sample(&mut pair, 8, 1000);
    assert_eq!(longer_ms(late_back, late_both), (10.0, 5.0));
}

#[test]
fn nobody_sends_them_unasked() {
    use Timestamps::{Off, Offered, Wanted, WantedAndOffered};
    for client in [Off, Wanted, Offered, WantedAndOffered] {
        for server in [Off, Wanted, Offered, WantedAndOffered] {
            let mut pair = pair(client, server);
            let sends = [Offered, WantedAndOffered].contains(&client) && [Wanted, WantedAndOffered].contains(&server);
            assert_eq!(hooks::gets_timestamps(&pair.server), sends, "{client:?} {server:?}");
            let sample = sample(&mut pair, 0, 300_000);
            assert_eq!(sample.there_ns.is_some(), sends, "{client:?} {server:?}");
            assert!(sample.rtt >= DELAY * 2, "{sample:?}");
        }
    }
}
