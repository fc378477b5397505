// SPDX-License-Identifier: Apache-2.0
//! Values of answers, and the memory of answers that are being made or sent.
use super::failure::{Done, Failure, internal};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use thrift::protocol::{
    TBinaryOutputProtocol, TFieldIdentifier, TListIdentifier, TOutputProtocol, TStructIdentifier, TType,
};

/// Answers of all connections together.
pub const ANSWER_BYTES: usize = 32 << 20;
/// Taken from the budget at a time; smaller answers are not counted.
const PIECE_BYTES: usize = 64 << 10;

/// Bytes of answers that others hold.
#[derive(Clone, Debug, Default)]
pub struct Budget(Arc<AtomicUsize>);

/// An answer.
pub struct Output {
    protocol: TBinaryOutputProtocol<Vec<u8>>,
    budget: Budget,
    /// Bytes taken from the budget.
    taken: usize,
}

impl Drop for Output {
    fn drop(&mut self) {
        self.budget.0.fetch_sub(self.taken, Ordering::Relaxed);
    }
}

impl Output {
    pub fn new(budget: Budget) -> Output {
        Output { protocol: TBinaryOutputProtocol::new(Vec::new(), true), budget, taken: 0 }
    }

    /// A part of an answer, made elsewhere.
    pub fn part() -> Output {
        Output::new(Budget::default())
    }

    pub fn protocol(&mut self) -> &mut dyn TOutputProtocol {
        &mut self.protocol
    }

    pub fn bytes(&self) -> &[u8] {
        &self.protocol.transport
    }

    pub fn into_bytes(mut self) -> Vec<u8> {
        std::mem::take(&mut self.protocol.transport)
    }

    /// Drops all from this length on.
    pub fn truncate(&mut self, length: usize) {
        self.protocol.transport.truncate(length);
    }

    /// Appends a part.
    ///
    /// # Errors
    /// Answers take too much memory.
    pub fn append(&mut self, part: &[u8]) -> Done {
        let length = self.bytes().len() + part.len();
        if length > self.taken + PIECE_BYTES {
            let more = length.next_multiple_of(PIECE_BYTES) - self.taken;
            if self.budget.0.fetch_add(more, Ordering::Relaxed) + more > ANSWER_BYTES {
                self.budget.0.fetch_sub(more, Ordering::Relaxed);
                return Err(internal(format!(
                    "the answers to all clients have at most {ANSWER_BYTES} bytes together; read smaller parts, or later"
                )));
            }
            self.taken += more;
        }
        self.protocol.transport.extend_from_slice(part);
        Ok(())
    }

    /// Writing to memory does not fail, but for structs that are too deep.
    fn put(&mut self, f: impl FnOnce(&mut dyn TOutputProtocol) -> thrift::Result<()>) {
        if let Err(e) = f(&mut self.protocol) {
            tracing::error!("Thrift: an answer could not be encoded: {e}");
        }
    }

    fn field(&mut self, id: i16, kind: TType, value: impl FnOnce(&mut dyn TOutputProtocol) -> thrift::Result<()>) {
        self.put(|p| {
            p.write_field_begin(&TFieldIdentifier::new("", kind, id))?;
            value(p)?;
            p.write_field_end()
        });
    }

    pub fn bool(&mut self, id: i16, v: bool) {
        self.field(id, TType::Bool, |p| p.write_bool(v));
    }

    pub fn i32(&mut self, id: i16, v: i32) {
        self.field(id, TType::I32, |p| p.write_i32(v));
    }

    pub fn i64(&mut self, id: i16, v: i64) {
        self.field(id, TType::I64, |p| p.write_i64(v));
    }

    pub fn double(&mut self, id: i16, v: f64) {
        self.field(id, TType::Double, |p| p.write_double(v));
    }

    /// A short string or binary.
    pub fn bytes_field(&mut self, id: i16, v: &[u8]) {
        self.field(id, TType::String, |p| p.write_bytes(v));
    }

    /// A string of any length.
    ///
    /// # Errors
    /// As [`Output::append`].
    pub fn text(&mut self, id: i16, v: &str) -> Done {
        self.field(id, TType::String, |p| p.write_i32(i32::try_from(v.len()).unwrap_or(i32::MAX)));
        self.append(v.as_bytes())
    }

    /// A struct of which `body` writes the fields.
    pub fn nested(&mut self, id: i16, body: impl FnOnce(&mut Output)) {
        self.field(id, TType::Struct, |_| Ok(()));
        self.element(body);
    }

    /// A struct as an element of a list.
    pub fn element(&mut self, body: impl FnOnce(&mut Output)) {
        self.put(|p| p.write_struct_begin(&TStructIdentifier::new("")));
        body(self);
        self.put(|p| {
            p.write_field_stop()?;
            p.write_struct_end()
        });
    }

    /// Begins a list, whose elements follow.
    pub fn list(&mut self, id: i16, kind: TType, length: usize) {
        let length = i32::try_from(length).unwrap_or(i32::MAX);
        self.field(id, TType::List, |p| p.write_list_begin(&TListIdentifier::new(kind, length)));
    }

    /// A string as an element of a list.
    pub fn bytes_element(&mut self, v: &[u8]) {
        self.put(|p| p.write_bytes(v));
    }

    /// Numbers as elements of a list.
    pub fn i32_element(&mut self, v: i32) {
        self.put(|p| p.write_i32(v));
    }

    pub fn i64_element(&mut self, v: i64) {
        self.put(|p| p.write_i64(v));
    }

    /// A map without entries.
    pub fn empty_map(&mut self, id: i16) {
        let map = thrift::protocol::TMapIdentifier::new(TType::String, TType::String, 0);
        self.field(id, TType::Map, |p| p.write_map_begin(&map));
    }

    /// The end of a struct.
    pub fn stop(&mut self) {
        self.put(|p| p.write_field_stop());
    }
}

/// A list of elements that are made piece by piece, each on the packet thread.
pub async fn pieces<'a, F>(
    out: &mut Output,
    total: usize,
    size: usize,
    mut piece: impl FnMut(std::ops::Range<usize>) -> F,
) -> Done
where
    F: Future<Output = Result<Vec<u8>, Failure>> + 'a,
{
    for from in (0..total).step_by(size) {
        let bytes = piece(from..total.min(from + size)).await?;
        out.append(&bytes)?;
    }
    Ok(())
}
