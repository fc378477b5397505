// SPDX-License-Identifier: Apache-2.0
//! A request's bytes before they are decoded: gathered whole, and checked for their decoded size. A field of a message
//! takes two bytes on the wire and hundreds once it is decoded, so that fields are counted and not only bytes.
use crate::p4runtime::proto::p4::v1 as pb;
use http_body::{Body as HttpBody, Frame};
use prost::Message as _;
use std::convert::Infallible;
use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;
use tonic::codegen::Bytes;
use weir_p4::p4info::proto::P4Info;

/// gRPC's own header of a message: compressed or not, and the length (PROTOCOL-HTTP2, Length-Prefixed-Message).
const PREFIX_BYTES: usize = 5;
/// A message up to here takes nothing of the budget: large requests of others delay no small one.
const SMALL_BYTES: usize = 1 << 10;
/// Updates in one Write. An empty one takes 2 bytes, and some 300 decoded.
const MOST_UPDATES: usize = 16_384;
/// A P4Info takes up to 200 times its bytes decoded, if it is made for that. Those of large programs have 100 kB.
const MOST_P4INFO_BYTES: usize = 256 << 10;

/// Byte budget of messages that are being received, or wait in a queue.
#[derive(Clone)]
pub struct ByteBudget {
    free: Arc<Semaphore>,
    most_bytes: usize,
}

impl ByteBudget {
    pub fn new(most_bytes: usize) -> ByteBudget {
        ByteBudget { free: Arc::new(Semaphore::new(most_bytes)), most_bytes }
    }

    /// Bytes of the budget for a message; none are needed for a small one.
    fn take(&self, bytes: usize) -> Result<Option<OwnedSemaphorePermit>, Status> {
        if bytes <= SMALL_BYTES {
            return Ok(None);
        }
        let refused = |_| {
            let most = self.most_bytes;
            let m =
                format!("this request has {bytes} bytes, and too much of the {most} for requests is taken; try again");
            Status::resource_exhausted(m)
        };
        let n = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.free.clone().try_acquire_many_owned(n).map(Some).map_err(refused)
    }
}

/// A message that was received completely.
pub struct BufferedMessage {
    bytes: Bytes,
    taken: bool,
    _budget: Option<OwnedSemaphorePermit>,
}

impl BufferedMessage {
    /// Waits for all of a request, with bytes of `budget` for its announced length. It is read no further than a message
    /// of `most_bytes` may be long: the decoder rejects a longer one by its announced length.
    ///
    /// # Errors
    /// Those of `body`; RESOURCE_EXHAUSTED when the budget is used up.
    pub async fn gather<B>(mut body: B, most_bytes: usize, budget: &ByteBudget) -> Result<BufferedMessage, Status>
    where
        B: HttpBody<Data = Bytes, Error = Status> + Unpin,
    {
        let (mut bytes, mut taken) = (Vec::new(), None);
        while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            let Ok(data) = frame?.into_data() else { continue };
            let had_prefix = bytes.len() >= PREFIX_BYTES;
            bytes.extend_from_slice(&data);
            if let Some(announced_bytes) = announced(&bytes) {
                if announced_bytes > most_bytes || bytes.len() > PREFIX_BYTES + announced_bytes {
                    break;
                }
                if !had_prefix {
                    taken = budget.take(announced_bytes)?;
                    bytes.reserve_exact((PREFIX_BYTES + announced_bytes).saturating_sub(bytes.len()));
                }
            }
        }
        Ok(BufferedMessage { bytes: bytes.into(), taken: false, _budget: taken })
    }

    /// The message without gRPC's header; a truncated or compressed one is empty here, and rejected by the decoder.
    pub fn message(&self) -> &[u8] {
        announced(&self.bytes).and_then(|n| self.bytes.get(PREFIX_BYTES..PREFIX_BYTES + n)).unwrap_or_default()
    }
}

fn announced(bytes: &[u8]) -> Option<usize> {
    let length = bytes.get(1..PREFIX_BYTES)?;
    Some(u32::from_be_bytes(length.try_into().ok()?) as usize)
}

impl HttpBody for BufferedMessage {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let first = !std::mem::replace(&mut self.taken, true);
        Poll::Ready(first.then(|| Ok(Frame::data(std::mem::take(&mut self.bytes)))))
    }
}

/// A varint at the front of `rest`, if there is one.
fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// The next field of a message: its number, its wire type, and its content if that is bytes or a message.
fn next<'a>(rest: &mut &'a [u8]) -> Option<(u64, u64, &'a [u8])> {
    let tag = varint(rest)?;
    let length = match tag & 7 {
        0 => varint(rest).map(|_| 0)?,
        1 => 8,
        2 => usize::try_from(varint(rest)?).ok()?,
        5 => 4,
        _ => 0,
    };
    let (value, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some((tag >> 3, tag & 7, value))
}

/// Shows `look` every field of that number. Where the message is malformed it ends: its decoder ends there too. Groups are
/// skipped by that decoder, which makes nothing of them; P4Runtime has none, so they are refused and need no counting.
fn each(message: &[u8], number: u64, mut look: impl FnMut(&[u8]) -> Result<(), Status>) -> Result<(), Status> {
    let mut rest = message;
    while let Some((n, wire_type, value)) = next(&mut rest) {
        match wire_type {
            2 if n == number => look(value)?,
            0 | 1 | 2 | 5 => (),
            3 => return Err(Status::invalid_argument(format!("field {n} is a group, of which P4Runtime has none"))),
            _ => break,
        }
    }
    Ok(())
}

/// Number of updates that a WriteRequest has once it is decoded, if it can be.
fn updates(message: &[u8]) -> Result<usize, Status> {
    let mut updates = 0;
    each(message, 4, |_| {
        updates += 1;
        Ok(())
    })?;
    Ok(updates)
}

/// Bytes of the P4Info in a SetForwardingPipelineConfigRequest. Each occurrence of a message is merged with those before.
fn p4info_bytes(message: &[u8]) -> Result<usize, Status> {
    let mut bytes = 0;
    each(message, 5, |config| {
        each(config, 1, |p4info| {
            bytes += p4info.len();
            Ok(())
        })
    })?;
    Ok(bytes)
}

/// Whether a WriteRequest stays in its budget.
///
/// # Errors
/// RESOURCE_EXHAUSTED with how many updates there are; INVALID_ARGUMENT for groups.
pub fn check_write(message: &[u8]) -> Result<(), Status> {
    let updates = updates(message)?;
    if updates > MOST_UPDATES {
        let m = format!("updates: {updates} in one Write; the most are {MOST_UPDATES}: send fewer at a time");
        return Err(Status::resource_exhausted(m));
    }
    Ok(())
}

/// Whether a SetForwardingPipelineConfigRequest stays in its budget.
///
/// # Errors
/// RESOURCE_EXHAUSTED with the size of its P4Info; INVALID_ARGUMENT for groups.
pub fn check_program(message: &[u8]) -> Result<(), Status> {
    let bytes = p4info_bytes(message)?;
    if bytes > MOST_P4INFO_BYTES {
        let m = format!("config.p4info: {bytes} bytes; the most are {MOST_P4INFO_BYTES}");
        return Err(Status::resource_exhausted(m));
    }
    Ok(())
}

/// Frames of a request's body.
struct Frames<'a>(std::slice::Chunks<'a, u8>);

impl HttpBody for Frames<'_> {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Poll::Ready(self.0.next().map(|part| Ok(Frame::data(Bytes::copy_from_slice(part)))))
    }
}

/// Any bytes as a request's body, in frames of any length, and as the message in it: what is counted before decoding is what
/// decoding finds.
pub fn fuzz(data: &[u8]) {
    const MOST_BYTES: usize = 64 << 10;
    let Some((length, data)) = data.split_first() else { return };
    let gather = |frame_bytes: usize| {
        let budget = ByteBudget::new(MOST_BYTES);
        let gathering = std::pin::pin!(BufferedMessage::gather(Frames(data.chunks(frame_bytes)), MOST_BYTES, &budget));
        match gathering.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(whole) => whole.map(|whole| whole.message().to_vec()).map_err(|refused| refused.code()),
            Poll::Pending => unreachable!("all of it is there"),
        }
    };
    let whole = gather(data.len().max(1));
    assert_eq!(gather(usize::from(*length) + 1), whole);
    for message in [data, &whole.unwrap_or_default()] {
        if let Ok(request) = pb::WriteRequest::decode(message) {
            assert!(updates(message).is_err() || updates(message).is_ok_and(|n| n == request.updates.len()));
        }
        if let Ok(request) = pb::SetForwardingPipelineConfigRequest::decode(message)
            && let Ok(0) = p4info_bytes(message)
        {
            assert!(request.config.and_then(|c| c.p4info).is_none_or(|p| p == P4Info::default()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_p4::p4info::proto::Table;

    #[test]
    fn updates_are_counted_as_they_are_decoded() {
        let request = |n: usize| pb::WriteRequest {
            device_id: 1 << 40,
            role: "a".into(),
            election_id: Some(pb::Uint128 { high: 3, low: 4 }),
            updates: vec![pb::Update::default(); n],
            ..Default::default()
        };
        assert!(check_write(&request(MOST_UPDATES).encode_to_vec()).is_ok());
        let refused = check_write(&request(MOST_UPDATES + 1).encode_to_vec()).unwrap_err();
        assert_eq!(refused.message(), "updates: 16385 in one Write; the most are 16384: send fewer at a time");
    }

    #[test]
    fn a_p4info_is_measured_wherever_its_parts_are() {
        let p4info = |n: usize| Some(P4Info { tables: vec![Table::default(); n], ..Default::default() });
        let program = vec![0; 10 << 20];
        let request = |n: usize| pb::SetForwardingPipelineConfigRequest {
            config: Some(pb::ForwardingPipelineConfig {
                p4info: p4info(n),
                p4_device_config: program.clone().into(),
                ..Default::default()
            }),
            ..Default::default()
        };
        let half = request(MOST_P4INFO_BYTES / 4).encode_to_vec();
        assert!(check_program(&half).is_ok());
        assert!(check_program(&[half.clone(), half.clone()].concat()).is_ok());
        let three = [half.clone(), half.clone(), half].concat();
        assert!(check_program(&three).unwrap_err().message().starts_with("config.p4info: 393216 bytes"));
    }

    #[test]
    fn what_is_malformed_ends_the_count() {
        for wrong in [&[0x80][..], &[0x22, 0x05, 0], &[0xff; 20], &[0x24], &[0x22, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]]
        {
            assert!(check_write(wrong).is_ok() && check_program(wrong).is_ok(), "{wrong:?}");
            assert!(pb::WriteRequest::decode(wrong).is_err(), "who decodes it refuses {wrong:?}");
        }
    }

    #[test]
    fn nothing_hides_behind_a_group() {
        // An empty group of a field that there is not; prost takes it, and all that follows.
        let group = [0x7b, 0x7c];
        let updates = pb::WriteRequest { updates: vec![pb::Update::default(); 3], ..Default::default() };
        let hidden = [&group[..], &updates.encode_to_vec()].concat();
        assert_eq!(pb::WriteRequest::decode(&hidden[..]).unwrap().updates.len(), 3);
        assert_eq!(check_write(&hidden).unwrap_err().message(), "field 15 is a group, of which P4Runtime has none");
        let config = [&[0x2a, 2][..], &group].concat();
        assert_eq!(check_program(&config).unwrap_err().code(), tonic::Code::InvalidArgument);
    }

    #[test]
    fn room_is_for_what_is_large_and_comes_free() {
        let budget = ByteBudget::new(10 * SMALL_BYTES);
        let most = budget.take(9 * SMALL_BYTES).unwrap();
        assert!(most.is_some());
        let refused = budget.take(2 * SMALL_BYTES).unwrap_err();
        let want = "this request has 2048 bytes, and too much of the 10240 for requests is taken; try again";
        assert_eq!((refused.code(), refused.message()), (tonic::Code::ResourceExhausted, want));
        assert!(budget.take(SMALL_BYTES).unwrap().is_none(), "a small one needs none");
        drop(most);
        assert!(budget.take(2 * SMALL_BYTES).unwrap().is_some());
    }
}
