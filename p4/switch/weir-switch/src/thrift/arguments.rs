// SPDX-License-Identifier: Apache-2.0
//! Arguments of a request, decoded without knowing the method: a tree of values of bounded size.
use super::failure::{Failure, protocol};
use thrift::protocol::{TInputProtocol, TType, field_id};
use thrift::{ProtocolError, ProtocolErrorKind};

/// Values in one request: `table_add` with 100 keys needs about 500.
const MAX_VALUES: usize = 16_384;
/// Lists and structs within each other; the crate limits structs alone.
const MAX_DEPTH: usize = 16;

/// A value of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Bool(bool),
    I16(i16),
    I32(i32),
    I64(i64),
    Double(f64),
    /// A string or binary.
    Bytes(Vec<u8>),
    Struct(Fields),
    List(Vec<Value>),
    /// A type that no method takes.
    Other,
}

/// Fields of a struct with their ids.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fields(Vec<(i16, Value)>);

/// Reads a struct.
///
/// # Errors
/// The bytes are no struct, or it has too many values or levels.
pub fn read(input: &mut dyn TInputProtocol) -> thrift::Result<Fields> {
    fields(input, &mut Limits { values: MAX_VALUES, depth: MAX_DEPTH })
}

/// Values and levels that a request may still have.
struct Limits {
    values: usize,
    depth: usize,
}

impl Limits {
    fn value(&mut self) -> thrift::Result<()> {
        self.values = self.values.checked_sub(1).ok_or_else(|| too_much(&format!("{MAX_VALUES} values")))?;
        Ok(())
    }

    fn enter(&mut self) -> thrift::Result<()> {
        self.depth = self.depth.checked_sub(1).ok_or_else(|| too_much(&format!("{MAX_DEPTH} levels")))?;
        Ok(())
    }

    fn leave(&mut self) {
        self.depth += 1;
    }
}

fn too_much(limit: &str) -> thrift::Error {
    let message = format!("a request has at most {limit}");
    thrift::Error::Protocol(ProtocolError::new(ProtocolErrorKind::SizeLimit, message))
}

fn fields(input: &mut dyn TInputProtocol, left: &mut Limits) -> thrift::Result<Fields> {
    left.enter()?;
    let mut fields = Vec::new();
    input.read_struct_begin()?;
    loop {
        let field = input.read_field_begin()?;
        if field.field_type == TType::Stop {
            break;
        }
        let id = field_id(&field)?;
        fields.push((id, value(input, field.field_type, left)?));
        input.read_field_end()?;
    }
    input.read_struct_end()?;
    left.leave();
    Ok(Fields(fields))
}

fn value(input: &mut dyn TInputProtocol, kind: TType, left: &mut Limits) -> thrift::Result<Value> {
    left.value()?;
    Ok(match kind {
        TType::Bool => Value::Bool(input.read_bool()?),
        TType::I16 => Value::I16(input.read_i16()?),
        TType::I32 => Value::I32(input.read_i32()?),
        TType::I64 => Value::I64(input.read_i64()?),
        TType::Double => Value::Double(input.read_double()?),
        TType::String => Value::Bytes(input.read_bytes()?),
        TType::Struct => Value::Struct(fields(input, left)?),
        TType::List => {
            left.enter()?;
            let list = input.read_list_begin()?;
            let mut values = Vec::new();
            for _ in 0..list.size {
                values.push(value(input, list.element_type, left)?);
            }
            input.read_list_end()?;
            left.leave();
            Value::List(values)
        }
        other => {
            input.skip(other)?;
            Value::Other
        }
    })
}

impl From<Vec<(i16, Value)>> for Fields {
    fn from(fields: Vec<(i16, Value)>) -> Fields {
        Fields(fields)
    }
}

impl Fields {
    #[cfg(test)]
    pub fn all(&self) -> &[(i16, Value)] {
        &self.0
    }

    /// The field, if it was sent.
    pub fn get(&self, id: i16) -> Option<&Value> {
        self.0.iter().find(|(i, _)| *i == id).map(|(_, v)| v)
    }

    fn need<'a, T>(&'a self, id: i16, kind: &str, of: impl Fn(&'a Value) -> Option<T>) -> Result<T, Failure> {
        self.get(id).and_then(of).ok_or_else(|| protocol(format!("field {id} must be {kind}")))
    }

    pub fn bool(&self, id: i16) -> Result<bool, Failure> {
        self.need(id, "a bool", |v| if let Value::Bool(b) = v { Some(*b) } else { None })
    }

    pub fn i16(&self, id: i16) -> Result<i16, Failure> {
        self.need(id, "an i16", |v| if let Value::I16(n) = v { Some(*n) } else { None })
    }

    pub fn i32(&self, id: i16) -> Result<i32, Failure> {
        self.need(id, "an i32", |v| if let Value::I32(n) = v { Some(*n) } else { None })
    }

    pub fn i64(&self, id: i16) -> Result<i64, Failure> {
        self.need(id, "an i64", |v| if let Value::I64(n) = v { Some(*n) } else { None })
    }

    pub fn double(&self, id: i16) -> Result<f64, Failure> {
        self.need(id, "a double", |v| if let Value::Double(n) = v { Some(*n) } else { None })
    }

    pub fn bytes(&self, id: i16) -> Result<&[u8], Failure> {
        self.need(id, "a string", |v| if let Value::Bytes(b) = v { Some(b.as_slice()) } else { None })
    }

    pub fn string(&self, id: i16) -> Result<String, Failure> {
        String::from_utf8(self.bytes(id)?.to_vec()).map_err(|_| protocol(format!("field {id} must be UTF-8 text")))
    }

    pub fn fields(&self, id: i16) -> Result<&Fields, Failure> {
        self.need(id, "a struct", |v| if let Value::Struct(s) = v { Some(s) } else { None })
    }

    /// A list of structs.
    pub fn structs(&self, id: i16) -> Result<Vec<&Fields>, Failure> {
        fn one(v: &Value) -> Option<&Fields> {
            if let Value::Struct(s) = v { Some(s) } else { None }
        }
        self.need(id, "a list of structs", |v| if let Value::List(l) = v { l.iter().map(one).collect() } else { None })
    }

    /// A list of strings.
    pub fn byte_lists(&self, id: i16) -> Result<Vec<&[u8]>, Failure> {
        fn one(v: &Value) -> Option<&[u8]> {
            if let Value::Bytes(b) = v { Some(b) } else { None }
        }
        self.need(id, "a list of strings", |v| if let Value::List(l) = v { l.iter().map(one).collect() } else { None })
    }

    /// Takes the bytes of a field out.
    pub fn take_bytes(&mut self, id: i16) -> Vec<u8> {
        let field = self.0.iter_mut().find(|(i, _)| *i == id);
        match field {
            Some((_, Value::Bytes(b))) => std::mem::take(b),
            _ => Vec::new(),
        }
    }
}
