// SPDX-License-Identifier: Apache-2.0
//! Errors as controllers see them: a canonical code, the field at fault, what is wrong with it.
use super::pb;
use prost::Message as _;
use tonic::{Code, Status};
use weir_p4::runtime::ChangeError;

#[derive(Clone, Debug, PartialEq)]
pub struct Fail {
    pub code: Code,
    /// The field, outermost first: `updates[3].table_entry.match[0] (hdr.ipv4.dst)`.
    pub at: String,
    pub message: String,
}

pub type Res<T> = Result<T, Fail>;

impl Fail {
    pub fn new(code: Code, message: impl Into<String>) -> Fail {
        Fail { code, at: String::new(), message: message.into() }
    }

    /// The same error seen from the message around it.
    pub fn under(mut self, outer: impl std::fmt::Display) -> Fail {
        self.at = if self.at.is_empty() { outer.to_string() } else { format!("{outer}.{}", self.at) };
        self
    }

    pub fn with_code(self, code: Code) -> Fail {
        Fail { code, ..self }
    }

    pub fn status(&self) -> Status {
        Status::new(self.code, self.to_string())
    }

    fn error(&self) -> pb::p4::v1::Error {
        pb::p4::v1::Error { canonical_code: self.code as i32, message: self.to_string(), ..Default::default() }
    }
}

impl std::fmt::Display for Fail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.at.is_empty() {
            write!(f, "{}: ", self.at)?;
        }
        f.write_str(&self.message)
    }
}

impl From<ChangeError> for Fail {
    fn from(e: ChangeError) -> Fail {
        let code = match e {
            ChangeError::NotFound(_) => Code::NotFound,
            ChangeError::Exists(_) => Code::AlreadyExists,
            ChangeError::Invalid(_) => Code::InvalidArgument,
            ChangeError::Full(_) => Code::ResourceExhausted,
        };
        Fail::new(code, e.to_string())
    }
}

pub fn invalid(message: impl Into<String>) -> Fail {
    Fail::new(Code::InvalidArgument, message)
}

pub fn not_found(message: impl Into<String>) -> Fail {
    Fail::new(Code::NotFound, message)
}

pub fn denied(message: impl Into<String>) -> Fail {
    Fail::new(Code::PermissionDenied, message)
}

pub fn unimplemented(message: impl Into<String>) -> Fail {
    Fail::new(Code::Unimplemented, message)
}

pub fn precondition(message: impl Into<String>) -> Fail {
    Fail::new(Code::FailedPrecondition, message)
}

pub fn exhausted(message: impl Into<String>) -> Fail {
    Fail::new(Code::ResourceExhausted, message)
}

/// Says where in a message an error lies; the place is only put into words when there is one.
pub trait At<T> {
    fn at<D: std::fmt::Display>(self, place: impl FnOnce() -> D) -> Res<T>;
}

impl<T> At<T> for Res<T> {
    fn at<D: std::fmt::Display>(self, place: impl FnOnce() -> D) -> Res<T> {
        self.map_err(|e| e.under(place()))
    }
}

/// Status of a batch (P4Runtime 12.3): UNKNOWN with one `p4.v1.Error` for each element, or nothing when all went well.
pub fn batch_status(what: &str, results: &[Res<()>]) -> Result<(), Status> {
    let failed = results.iter().filter(|r| r.is_err()).count();
    let Some(first) = results.iter().find_map(|r| r.as_ref().err()) else { return Ok(()) };
    let message = if results.len() == 1 {
        first.to_string()
    } else {
        format!("{failed} of {} {what} failed; the first: {first}", results.len())
    };
    let details = results.iter().map(|r| {
        let error = r.as_ref().map_or_else(Fail::error, |()| pb::p4::v1::Error::default());
        prost_types::Any { type_url: "type.googleapis.com/p4.v1.Error".into(), value: error.encode_to_vec() }
    });
    let code = Code::Unknown;
    let status = pb::google::rpc::Status { code: code as i32, message: message.clone(), details: details.collect() };
    Err(Status::with_details(code, message, status.encode_to_vec().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_is_named_from_the_outside_in() {
        let e: Res<()> = Err(invalid("prefix length 40 is above 32"));
        let e = e.at(|| "match[0] (hdr.ipv4.dst)").at(|| "updates[3].table_entry").unwrap_err();
        assert_eq!(e.to_string(), "updates[3].table_entry.match[0] (hdr.ipv4.dst): prefix length 40 is above 32");
    }

    #[test]
    fn a_batch_reports_each_element() {
        let status = batch_status("updates", &[Ok(()), Err(not_found("no such entry"))]).unwrap_err();
        assert_eq!(status.code(), Code::Unknown);
        let rpc = pb::google::rpc::Status::decode(status.details()).unwrap();
        let codes: Vec<i32> = rpc
            .details
            .iter()
            .map(|any| pb::p4::v1::Error::decode(any.value.as_slice()).unwrap().canonical_code)
            .collect();
        assert_eq!(codes, [0, Code::NotFound as i32]);
        assert!(batch_status("updates", &[Ok(())]).is_ok());
    }
}
