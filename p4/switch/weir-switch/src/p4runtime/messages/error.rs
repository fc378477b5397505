// SPDX-License-Identifier: Apache-2.0
//! Errors as controllers see them: a canonical code, the field at fault, the fault.
use crate::p4runtime::proto;
use prost::Message as _;
use tonic::{Code, Status};
use weir_p4::exec::ChangeError;

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
        Status::new(self.code, cut(&self.to_string(), STATUS_BYTES - 256))
    }

    fn error(&self, most: usize) -> proto::p4::v1::Error {
        let message = cut(&self.to_string(), most);
        proto::p4::v1::Error { canonical_code: self.code as i32, message, ..Default::default() }
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

/// Size limit of a status in HTTP/2's headers unless the client announces a larger one: gRPC's clients reject 16 kB,
/// and by default all above 8 kB now and then; other headers take some too.
const STATUS_BYTES: usize = 7 << 10;
/// Of which the text takes so much.
const TEXT_BYTES: usize = 3 << 10;
/// By this header of a request a client says how many bytes of status it takes.
const BUDGET_HEADER: &str = "weir-status-bytes";
const MAX_BUDGET_BYTES: usize = 1 << 20;

/// Bytes of status that a client takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusBudget(usize);

impl Default for StatusBudget {
    fn default() -> Self {
        StatusBudget(STATUS_BYTES)
    }
}

impl StatusBudget {
    /// Limit from the headers of a request.
    pub fn of(metadata: &tonic::metadata::MetadataMap) -> StatusBudget {
        let said = metadata.get(BUDGET_HEADER).and_then(|v| v.to_str().ok()?.parse().ok());
        StatusBudget(said.unwrap_or(STATUS_BYTES).clamp(STATUS_BYTES, MAX_BUDGET_BYTES))
    }
}

/// Bytes of a text in a header, where tonic writes all but letters, digits and most signs with three for each byte.
fn in_header(text: &str) -> usize {
    text.chars().map(header_bytes).sum()
}

fn header_bytes(c: char) -> usize {
    if c.is_ascii_graphic() && !"\"#%<>`?{}".contains(c) { 1 } else { 3 * c.len_utf8() }
}

/// A text that takes no more than so many bytes of a header; the cut is reported, in lines or in bytes.
pub fn cut(text: &str, most: usize) -> String {
    const TAIL: usize = 40;
    if in_header(text) <= most {
        return text.into();
    }
    let mut budget = most.saturating_sub(TAIL);
    let fits = |c: char| {
        budget = budget.checked_sub(header_bytes(c))?;
        Some(c.len_utf8())
    };
    let end: usize = text.chars().map_while(fits).sum();
    match text[..end].rfind('\n') {
        Some(line) => format!("{}\n... {} lines more", &text[..line], text[line + 1..].lines().count()),
        None => format!("{}... {} bytes more", &text[..end], text.len() - end),
    }
}

/// Status of a batch (P4Runtime 12.3): UNKNOWN with one `p4.v1.Error` for each element, or nothing when all went well.
/// Errors are cut to the client's limit: first their texts, and when that is not enough the list of them ends early,
/// which the status's own text says.
pub fn batch_status(what: &str, results: &[Res<()>], budget: StatusBudget) -> Result<(), Status> {
    let failed = results.iter().filter(|r| r.is_err()).count();
    let Some(first) = results.iter().find_map(|r| r.as_ref().err()) else { return Ok(()) };
    let message = if results.len() == 1 {
        first.to_string()
    } else {
        format!("{failed} of {} {what} failed; the first: {first}", results.len())
    };
    // In base64, with the text once more.
    let text = cut(&message, TEXT_BYTES);
    let details_bytes = (budget.0 - in_header(&text)) / 4 * 3 - 16;
    let list = |most: usize| -> Vec<prost_types::Any> {
        let one = |r: &Res<()>| {
            let error = r.as_ref().map_or_else(|e| e.error(most), |()| proto::p4::v1::Error::default());
            prost_types::Any { type_url: "type.googleapis.com/p4.v1.Error".into(), value: error.encode_to_vec() }
        };
        results.iter().map(one).collect()
    };
    let code = Code::Unknown;
    let status =
        |message: &str, details| proto::google::rpc::Status { code: code as i32, message: message.into(), details };
    for most in [TEXT_BYTES, 300, 80] {
        let whole = status(&text, list(most));
        if whole.encoded_len() <= details_bytes {
            return Err(Status::with_details(code, text, whole.encode_to_vec().into()));
        }
    }
    let mut some = status("", Vec::new());
    let note = |n: usize| format!("; what became of the first {n} is listed, send fewer at a time to hear of all");
    let text = cut(&message, TEXT_BYTES - in_header(&note(results.len())));
    // The header has the text and the details have it again.
    let details_bytes = (budget.0 - TEXT_BYTES) / 4 * 3 - 16;
    let mut left = details_bytes.saturating_sub(text.len() + note(results.len()).len() + 16);
    for any in list(80) {
        let Some(rest) = left.checked_sub(any.encoded_len() + 3) else { break };
        left = rest;
        some.details.push(any);
    }
    some.message = text + &note(some.details.len());
    Err(Status::with_details(code, some.message.clone(), some.encode_to_vec().into()))
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
        let status =
            batch_status("updates", &[Ok(()), Err(not_found("no such entry"))], StatusBudget::default()).unwrap_err();
        assert_eq!(status.code(), Code::Unknown);
        let rpc = proto::google::rpc::Status::decode(status.details()).unwrap();
        let codes: Vec<i32> = rpc
            .details
            .iter()
            .map(|any| proto::p4::v1::Error::decode(any.value.as_slice()).unwrap().canonical_code)
            .collect();
        assert_eq!(codes, [0, Code::NotFound as i32]);
        assert!(batch_status("updates", &[Ok(())], StatusBudget::default()).is_ok());
    }

    /// Size of a status in headers.
    fn in_headers(s: &Status) -> usize {
        in_header(s.message()) + s.details().len().div_ceil(3) * 4
    }

    fn listed(s: &Status) -> Vec<proto::p4::v1::Error> {
        let rpc = proto::google::rpc::Status::decode(s.details()).unwrap();
        assert_eq!(rpc.message, s.message());
        rpc.details.iter().map(|any| proto::p4::v1::Error::decode(any.value.as_slice()).unwrap()).collect()
    }

    #[test]
    fn what_clients_could_not_receive_is_cut() {
        let fail = |i: usize| Err(not_found(format!("no such entry, number {i}: {}", "é\n".repeat(i % 40 * 20))));
        for n in [1, 2, 30, 60, 100, 500, 4000] {
            let results: Vec<Res<()>> = (0..n).map(|i| if i % 2 == 0 { fail(i) } else { Ok(()) }).collect();
            let status = batch_status("updates", &results, StatusBudget::default()).unwrap_err();
            assert!(in_headers(&status) <= STATUS_BYTES, "{n}: {}", in_headers(&status));
            let list = listed(&status);
            assert_eq!(list.len() == n, n <= 60, "{n}: {}", list.len());
            assert!(list.len() >= n.min(30));
            assert!(list.iter().enumerate().all(|(i, e)| (e.canonical_code == 0) == (i % 2 == 1)));
            let said = format!("what became of the first {} is listed", list.len());
            assert_eq!(status.message().contains(&said), list.len() < n, "{}", status.message());
            // A client that takes more hears more.
            let mut metadata = tonic::metadata::MetadataMap::new();
            metadata.insert(BUDGET_HEADER, "1000000".parse().unwrap());
            let status = batch_status("updates", &results, StatusBudget::of(&metadata)).unwrap_err();
            assert_eq!(listed(&status).len(), n);
            assert!(in_headers(&status) <= 1_000_000);
        }
    }

    #[test]
    fn a_long_text_ends_with_how_much_is_left_out() {
        let lines: String = (0..1000).map(|i| format!("line {i}\n")).collect();
        let status = invalid(lines).status();
        assert!(in_headers(&status) <= STATUS_BYTES, "{}", in_headers(&status));
        let shown = status.message().lines().count() - 1;
        assert!(status.message().ends_with(&format!("... {} lines more", 1000 - shown)), "{}", status.message());
        assert_eq!(cut("short", 100), "short");
        let all = cut(&"%".repeat(100), 70);
        assert_eq!(all, format!("{}... 90 bytes more", "%".repeat(10)));
    }
}
