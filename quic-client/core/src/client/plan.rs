// SPDX-License-Identifier: Apache-2.0
//! Paced requests, equal or with sizes in turn: the load of a measurement.

use super::body::{Body, Nowhere};
use super::bulk::{Action, Bulk, Transfer};
use super::exchange::{Head, Task, Tasks};
use crate::request::{promised_bytes, with_flow};
use quiche::ConnectionId;
use quiche::h3::Header;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Requests of a session, equal but for their sizes.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Label that the requests send the server, if any.
    pub label: Option<u64>,
    /// `host:port`, for messages.
    pub authority: String,
    /// Path asked for, by each task.
    pub path: String,
    /// Sizes of the tasks, in turn, in bytes, instead of the path: task n asks for `/bytes/SIZE`. Empty: `path` for all.
    pub sizes: Vec<u64>,
    /// Action of each task.
    pub action: Action,
    /// Method of a download; `None`: GET, or POST with `data`.
    pub method: Option<String>,
    /// Header fields beside our own. A name replaces our field of that name.
    pub headers: Vec<Header>,
    /// Body of a download's request.
    pub data: Option<Rc<[u8]>>,
    /// Redirects within the origin that a task follows.
    pub redirects: u32,
    /// Number of tasks.
    pub tasks: u64,
    /// At most so many at once.
    pub parallel: usize,
    /// Task n starts no sooner than n times this after the first could.
    pub interval: Duration,
    /// The first task starts no sooner than this; `None`: as soon as the connection is up.
    pub start_at: Option<Instant>,
    /// Payload that a download may have at most.
    pub max_bytes: Option<u64>,
}

impl Default for Plan {
    /// One download of `/`, at once.
    fn default() -> Self {
        Plan {
            label: None,
            authority: String::new(),
            path: "/".to_owned(),
            sizes: Vec::new(),
            action: Action::Download,
            method: None,
            headers: Vec::new(),
            data: None,
            redirects: 0,
            tasks: 1,
            parallel: 1,
            interval: Duration::ZERO,
            start_at: None,
            max_bytes: None,
        }
    }
}

impl Plan {
    /// Payload that each task moves, where that is known.
    pub fn task_bytes(&self) -> Option<u64> {
        match self.action {
            Action::Download if self.method.as_deref() == Some("HEAD") => None,
            Action::Download => promised_bytes(&self.path),
            Action::Upload(n) => n,
        }
    }

    /// Sets the path of a task of this number.
    fn aim(&mut self, task: u64) {
        if !self.sizes.is_empty() {
            self.path = format!("/bytes/{}", self.sizes[task as usize % self.sizes.len()]);
        }
    }

    pub(super) fn transfer(&self) -> Transfer {
        let head = self.head();
        Transfer {
            action: self.action,
            authority: self.authority.clone(),
            path: self.path.clone(),
            data: self.data.clone(),
            repeats: head.is_idempotent(),
            keeps_method: head.has_body || !head.is_safe(),
            is_head: self.method.as_deref() == Some("HEAD"),
            redirects: self.redirects,
            max_bytes: self.max_bytes,
            bytes: self.task_bytes().filter(|_| self.action == Action::Download),
        }
    }

    pub(super) fn head(&self) -> Head {
        let path = self.label.map_or_else(|| self.path.clone(), |label| with_flow(&self.path, label));
        let upload = self.action != Action::Download;
        let method = match &self.method {
            Some(method) => method,
            None if upload || self.data.is_some() => "POST",
            None => "GET",
        };
        let length = match (&self.action, &self.data) {
            (Action::Upload(n), _) => *n,
            (Action::Download, data) => data.as_ref().map(|data| data.len() as u64),
        };
        let replaced = |name: &[u8]| self.headers.iter().any(|h| quiche::h3::NameValue::name(h) == name);
        let mut headers = Vec::new();
        if !replaced(b"user-agent") {
            headers.push(Header::new(b"user-agent", b"weir"));
        }
        if let Some(n) = length.filter(|_| !replaced(b"content-length")) {
            headers.push(Header::new(b"content-length", n.to_string().as_bytes()));
        }
        headers.extend(self.headers.iter().cloned());
        Head {
            method: method.to_owned(),
            path,
            headers,
            has_body: upload || self.data.is_some(),
            is_upload: upload,
            bytes: self.task_bytes(),
            ..Head::default()
        }
    }
}

/// The tasks of a [`Plan`] that were not begun.
pub struct PlannedTasks {
    plan: Plan,
    /// Of the first task; the others discard their answers.
    body: Option<Box<dyn Body>>,
    begun: u64,
}

impl PlannedTasks {
    /// All tasks of a plan. `body` takes the first answer, the others are counted and discarded.
    pub fn new(mut plan: Plan, body: Box<dyn Body>) -> Self {
        plan.aim(0);
        PlannedTasks { plan, body: Some(body), begun: 0 }
    }
}

impl Tasks for PlannedTasks {
    fn next_due(&mut self, up: Instant, running: usize) -> Option<Instant> {
        if running >= self.plan.parallel || self.begun == self.plan.tasks {
            return None;
        }
        let nanos = u64::try_from(self.plan.interval.as_nanos()).unwrap_or(u64::MAX).saturating_mul(self.begun);
        self.plan.start_at.unwrap_or(up).checked_add(Duration::from_nanos(nanos))
    }

    fn take(&mut self) -> Option<Task> {
        if self.begun == self.plan.tasks {
            return None;
        }
        self.begun += 1;
        let body = self.body.take().unwrap_or_else(|| Box::new(Nowhere));
        let task = Task { head: self.plan.head(), exchange: Box::new(Bulk::new(self.plan.transfer(), body)) };
        self.plan.aim(self.begun);
        Some(task)
    }

    fn next_bytes(&self) -> Option<u64> {
        self.plan.task_bytes()
    }

    fn left(&self) -> Option<u64> {
        Some(self.plan.tasks - self.begun)
    }

    fn left_at_once(&self) -> u64 {
        if self.plan.interval.is_zero() { self.plan.tasks - self.begun } else { 0 }
    }
}

/// Resources that the caller lends a session for one event-loop iteration.
pub struct Means<'a> {
    /// Buffer to read into.
    pub scratch: &'a mut [u8],
    /// Requests to come.
    pub tasks: &'a mut dyn Tasks,
    /// Makes a connection ID with its reset token, both random.
    pub new_cid: &'a mut dyn FnMut() -> (ConnectionId<'static>, u128),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_taken_in_turn() {
        let plan = Plan { sizes: vec![5, 100], tasks: 3, ..Plan::default() };
        let mut tasks = PlannedTasks::new(plan, Box::new(Nowhere));
        for size in [5, 100, 5] {
            assert_eq!(tasks.next_bytes(), Some(size));
            let task = tasks.take().expect("three tasks");
            assert_eq!((task.head.path, task.head.bytes), (format!("/bytes/{size}"), Some(size)));
        }
        assert!(tasks.take().is_none());
    }

    #[test]
    fn requests_that_change_something_are_sent_once() {
        let repeats = |method: Option<&str>, data: Option<&[u8]>| {
            let (method, data) = (method.map(str::to_owned), data.map(Rc::from));
            Plan { method, data, ..Plan::default() }.transfer().repeats
        };
        for method in [None, Some("GET"), Some("HEAD"), Some("PUT"), Some("DELETE")] {
            assert!(repeats(method, None), "{method:?}");
        }
        assert!(repeats(Some("PUT"), Some(b"x")));
        let keeps_method =
            |method: &str| Plan { method: Some(method.to_owned()), ..Plan::default() }.transfer().keeps_method;
        assert_eq!(["GET", "HEAD", "DELETE", "PUT", "POST"].map(keeps_method), [false, false, true, true, true]);
        for (method, data) in [(Some("POST"), None), (Some("PATCH"), None), (None, Some(&b"x"[..]))] {
            assert!(!repeats(method, data), "{method:?}");
        }
    }
}
