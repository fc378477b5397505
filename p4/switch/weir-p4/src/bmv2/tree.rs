// SPDX-License-Identifier: Apache-2.0
//! A JSON document with the path of each value, so that every error names its place.
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;
use std::rc::Rc;

/// The document is no program that this switch runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Path in the document, such as `pipelines[0].tables[2].key[0]`; empty for the document itself.
    pub at: String,
    /// One sentence without a full stop.
    pub message: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.at.is_empty() {
            write!(f, "{}: ", self.at)?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

pub(super) type Res<T> = Result<T, Error>;

/// Levels of arrays and objects within each other.
const MAX_DEPTH: usize = 1000;

#[derive(Debug)]
enum Step {
    Key(&'static str),
    Index(usize),
}

#[derive(Debug)]
struct Link {
    parent: Option<Rc<Link>>,
    step: Step,
}

/// A value and its path.
#[derive(Clone, Debug)]
pub(super) struct Item<'a> {
    pub v: &'a Value,
    at: Option<Rc<Link>>,
}

/// Parses a document.
pub(super) fn parse(text: &str) -> Res<Value> {
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    let mut clean = Cow::Borrowed(text.as_bytes());
    for (i, b) in text.bytes().enumerate() {
        match b {
            // p4c writes the line breaks of a program's strings as they are.
            0..0x20 if in_string && !escaped => clean.to_mut()[i] = b' ',
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => depth += 1,
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            let message = format!("unsupported: more than {MAX_DEPTH} levels of arrays and objects");
            return Err(Error { at: String::new(), message });
        }
    }
    let wrong = |message: String| Error { at: String::new(), message };
    let mut from = serde_json::Deserializer::from_slice(&clean);
    from.disable_recursion_limit();
    let mut values = from.into_iter::<Value>();
    let value = values.next().unwrap_or(Ok(Value::Null)).map_err(|e| wrong(format!("is no JSON: {e}")))?;
    match values.next() {
        None => Ok(value),
        Some(_) => Err(wrong("is no JSON: text follows the first value".into())),
    }
}

fn kind(v: &Value) -> &'static str {
    match v {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

impl<'a> Item<'a> {
    pub fn root(v: &'a Value) -> Item<'a> {
        Item { v, at: None }
    }

    fn child(&self, v: &'a Value, step: Step) -> Item<'a> {
        Item { v, at: Some(Rc::new(Link { parent: self.at.clone(), step })) }
    }

    pub fn path(&self) -> String {
        let (mut steps, mut at) = (Vec::new(), self.at.as_ref());
        while let Some(link) = at {
            steps.push(&link.step);
            at = link.parent.as_ref();
        }
        let mut out = String::new();
        for step in steps.into_iter().rev() {
            match step {
                Step::Key(k) if out.is_empty() => out.push_str(k),
                Step::Key(k) => out.extend([".", k]),
                Step::Index(i) => out.push_str(&format!("[{i}]")),
            }
        }
        out
    }

    pub fn err<T>(&self, message: impl Into<String>) -> Res<T> {
        Err(Error { at: self.path(), message: message.into() })
    }

    pub fn unsupported<T>(&self, what: impl fmt::Display) -> Res<T> {
        self.err(format!("unsupported: {what}"))
    }

    fn wrong<T>(&self, wanted: &str) -> Res<T> {
        self.err(format!("must be {wanted}, not {}", kind(self.v)))
    }

    /// The member of this name; `None` also for null.
    pub fn opt(&self, key: &'static str) -> Option<Item<'a>> {
        self.v.get(key).filter(|v| !v.is_null()).map(|v| self.child(v, Step::Key(key)))
    }

    pub fn get(&self, key: &'static str) -> Res<Item<'a>> {
        match self.v.as_object() {
            None => self.wrong("an object"),
            Some(_) => match self.opt(key) {
                Some(item) => Ok(item),
                None => self.err(format!("has no `{key}`")),
            },
        }
    }

    pub fn list(&self) -> Res<Vec<Item<'a>>> {
        match self.v {
            Value::Array(list) => Ok(list.iter().enumerate().map(|(i, v)| self.child(v, Step::Index(i))).collect()),
            _ => self.wrong("an array"),
        }
    }

    /// Elements of the member of this name; none where it is missing.
    pub fn items(&self, key: &'static str) -> Res<Vec<Item<'a>>> {
        self.opt(key).map_or(Ok(Vec::new()), |item| item.list())
    }

    /// Elements of an array of this length.
    pub fn exactly<const N: usize>(&self) -> Res<[Item<'a>; N]> {
        let list = self.list()?;
        let n = list.len();
        list.try_into().or_else(|_| self.err(format!("must have {N} elements, not {n}")))
    }

    pub fn text(&self) -> Res<&'a str> {
        self.v.as_str().map_or_else(|| self.wrong("a string"), Ok)
    }

    pub fn number(&self) -> Res<u64> {
        self.v.as_u64().map_or_else(|| self.wrong("a whole number from 0 on"), Ok)
    }

    /// A number up to a limit.
    pub fn up_to(&self, most: u64) -> Res<u64> {
        match self.number()? {
            n if n <= most => Ok(n),
            n => self.err(format!("{n} is more than this switch has ({most})")),
        }
    }

    pub fn flag(&self) -> Res<bool> {
        self.v.as_bool().map_or_else(|| self.wrong("true or false"), Ok)
    }

    /// The member of this name as a boolean, or a default.
    pub fn flag_or(&self, key: &'static str, default: bool) -> Res<bool> {
        self.opt(key).map_or(Ok(default), |item| item.flag())
    }

    pub fn name(&self) -> Res<&'a str> {
        self.get("name")?.text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_its_place() {
        let v = parse(r#"{"a": [{"b": 1}, {"b": "x"}]}"#).unwrap();
        let list = Item::root(&v).get("a").unwrap().list().unwrap();
        assert_eq!(list[0].get("b").unwrap().number(), Ok(1));
        assert_eq!(list[1].get("b").unwrap().number().unwrap_err().at, "a[1].b");
        assert_eq!(list[1].get("c").unwrap_err().at, "a[1]");
        assert_eq!(Item::root(&v).text().unwrap_err().at, "");
    }

    #[test]
    fn nesting_is_limited() {
        let deep = |n: usize| parse(&format!("{}{}", "[".repeat(n), "]".repeat(n)));
        assert!(deep(MAX_DEPTH).is_ok());
        assert!(deep(MAX_DEPTH + 1).is_err());
        assert!(parse(r#"{"a": "[[[\"[["}"#).is_ok());
        assert!(parse("{} {}").is_err());
        assert_eq!(parse("[\"a\n\\n\"]").unwrap()[0], "a \n");
    }
}
