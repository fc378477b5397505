// SPDX-License-Identifier: Apache-2.0
//! [`Relay`]: the connection to the relay, which is made again when it is lost, and the requests for tunnels.

use super::destination::Destination;
use super::socks::code;
use crate::client::complain;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};
use weir_core::backoff::{Backoff, Schedule};
use weir_quic::tokio::{BodyWriter, Connection, PendingResponse, Response, connect};
use weir_quic::{Client, Error, Request, StatusCode};

/// Waits between attempts to connect again.
const WAITS: Schedule = Schedule { first: Duration::from_millis(250), cap: Duration::from_secs(5) };
/// Time limit of an attempt to connect again.
const ATTEMPT: Duration = Duration::from_secs(10);
/// Time that a tunnel waits for a connection to the relay.
const CONNECTION: Duration = Duration::from_secs(10);
/// Time that a tunnel waits for the relay's answer.
const ANSWER: Duration = Duration::from_secs(60);

/// Reason why a tunnel was not opened, for the local program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenError {
    /// Code of SOCKS5.
    pub socks: u8,
    /// Status of HTTP with its reason phrase.
    pub status: &'static str,
    /// Reason in one line.
    pub text: String,
}

const BAD_GATEWAY: &str = "502 Bad Gateway";
const UNAVAILABLE: &str = "503 Service Unavailable";
const TIMED_OUT: &str = "504 Gateway Timeout";

impl OpenError {
    fn new(socks: u8, status: &'static str, text: impl Into<String>) -> OpenError {
        OpenError { socks, status, text: text.into() }
    }

    /// The proxy has as many tunnels as it may have.
    pub fn full() -> OpenError {
        OpenError::new(code::FAILURE, UNAVAILABLE, "the proxy has as many tunnels as --max-tunnels allows")
    }

    /// Of a relay's refusal, by the types of RFC 9209 2.3.
    fn refused(status: StatusCode, reason: &str) -> OpenError {
        /// Parts of types, the more specific first.
        const TYPES: [(&str, u8, &str); 7] = [
            ("dns", code::HOST_UNREACHABLE, BAD_GATEWAY),
            ("connection_refused", code::REFUSED, BAD_GATEWAY),
            ("prohibited", code::NOT_ALLOWED, "403 Forbidden"),
            ("unroutable", code::NETWORK_UNREACHABLE, BAD_GATEWAY),
            ("timeout", code::HOST_UNREACHABLE, TIMED_OUT),
            ("destination", code::HOST_UNREACHABLE, BAD_GATEWAY),
            ("limit_reached", code::FAILURE, UNAVAILABLE),
        ];
        let mut text = format!("the relay answered {}", status.as_u16());
        if status == StatusCode::PROXY_AUTHENTICATION_REQUIRED || status == StatusCode::UNAUTHORIZED {
            text += ": it demands another --token";
            return OpenError::new(code::NOT_ALLOWED, BAD_GATEWAY, text);
        }
        if !reason.is_empty() {
            text = format!("{text}: {reason}");
        }
        let known = TYPES.iter().find(|(part, ..)| reason.contains(part));
        let by_status = match status {
            StatusCode::FORBIDDEN => (code::NOT_ALLOWED, "403 Forbidden"),
            StatusCode::GATEWAY_TIMEOUT => (code::HOST_UNREACHABLE, TIMED_OUT),
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => (code::FAILURE, UNAVAILABLE),
            _ => (code::FAILURE, BAD_GATEWAY),
        };
        let (socks, status) = known.map_or(by_status, |(_, socks, status)| (*socks, *status));
        OpenError::new(socks, status, text)
    }
}

impl From<Error> for OpenError {
    fn from(e: Error) -> OpenError {
        OpenError::new(code::FAILURE, BAD_GATEWAY, format!("the relay: {e}"))
    }
}

/// The relay.
pub struct Relay {
    client: Client,
    url: String,
    authorization: Option<String>,
    current: watch::Sender<Option<Connection>>,
    /// The relay takes no more tunnels on the connection.
    renew: Notify,
}

impl Relay {
    /// Connects for the first time.
    ///
    /// # Errors
    /// There is no connection.
    pub async fn connect(client: Client, url: &str, token: Option<String>) -> Result<Rc<Relay>, Error> {
        let connection = connect(&client, url).await?;
        let authorization = token.map(|token| format!("Bearer {token}"));
        let (current, _) = watch::channel(Some(connection));
        Ok(Rc::new(Relay { client, url: url.to_owned(), authorization, current, renew: Notify::new() }))
    }

    /// Connects again whenever the connection is lost, or its server goes away.
    pub async fn keep(&self) {
        let mut backoff = Backoff::new(WAITS);
        loop {
            let begun = Instant::now();
            let connection = self.current.borrow().clone();
            if let Some(connection) = connection {
                tokio::select! {
                    e = connection.closed() => complain(&format!("the connection to the relay is lost: {e}; connecting again")),
                    () = self.renew.notified() => {}
                }
            }
            // Tunnels that are open keep their connection.
            self.current.send_replace(None);
            let mut lived = begun.elapsed();
            loop {
                sleep(backoff.wait(lived, fastrand::f64())).await;
                let begun = Instant::now();
                if let Ok(Ok(connection)) = timeout(ATTEMPT, connect(&self.client, &self.url)).await {
                    self.current.send_replace(Some(connection));
                    break;
                }
                lived = begun.elapsed().min(WAITS.cap / 2);
            }
        }
    }

    /// Name of the path in use.
    pub fn path(&self) -> String {
        self.current.borrow().as_ref().map_or_else(String::new, |connection| connection.status().path)
    }

    /// Closes the connection.
    pub fn close(&self) {
        if let Some(connection) = self.current.send_replace(None) {
            connection.close();
        }
    }

    async fn connection(&self) -> Result<Connection, OpenError> {
        let usable = |connection: &Option<Connection>| {
            let Some(connection) = connection else { return false };
            if connection.status().is_going_away {
                self.renew.notify_one();
                return false;
            }
            connection.ended().is_none()
        };
        let mut current = self.current.subscribe();
        let found = timeout(CONNECTION, current.wait_for(usable)).await.ok().and_then(|found| found.ok()?.clone());
        found.ok_or_else(|| OpenError::new(code::FAILURE, UNAVAILABLE, "no connection to the relay"))
    }

    fn authorized(&self, request: Request) -> Request {
        match &self.authorization {
            Some(value) => request.header("proxy-authorization", value),
            None => request,
        }
    }

    /// Opens a tunnel of TCP.
    ///
    /// # Errors
    /// The relay can't be reached, or refuses.
    pub async fn open_tcp(&self, to: &Destination) -> Result<(BodyWriter, Response), OpenError> {
        let mut tries = 0;
        loop {
            let connection = self.connection().await?;
            let (writer, pending) = connection.open(self.authorized(Request::connect(to.to_string())))?;
            match answered(pending).await {
                Ok(response) => return Ok((writer, response)),
                // Nothing was sent in the tunnel, so another one is as good.
                Err(_) if tries == 0 && connection.ended().is_some() => tries += 1,
                Err(e) => return Err(e),
            }
        }
    }

    /// Begins a tunnel of UDP (RFC 9298). Datagrams can be sent before it is answered.
    ///
    /// # Errors
    /// The relay can't be reached.
    pub async fn open_udp(&self, to: &Destination) -> Result<(BodyWriter, PendingResponse), OpenError> {
        let request = Request::extended_connect("connect-udp", to.udp_path()).header("capsule-protocol", "?1");
        Ok(self.connection().await?.open(self.authorized(request))?)
    }
}

/// Waits for the relay's answer.
///
/// # Errors
/// It refuses, or does not answer.
pub async fn answered(pending: PendingResponse) -> Result<Response, OpenError> {
    let Ok(answer) = timeout(ANSWER, pending.wait()).await else {
        let text = format!("the relay did not answer for {} s", ANSWER.as_secs());
        return Err(OpenError::new(code::HOST_UNREACHABLE, TIMED_OUT, text));
    };
    let response = answer?;
    if response.status().is_success() {
        return Ok(response);
    }
    let reason = response.headers().get("proxy-status").map(|value| value.as_bytes()).unwrap_or_default();
    Err(OpenError::refused(response.status(), &weir_core::text::printable_bytes(reason)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_of_a_relay() {
        let of = |status: u16, reason: &str| {
            let e = OpenError::refused(StatusCode::from_u16(status).unwrap(), reason);
            (e.socks, e.status)
        };
        assert_eq!(of(502, "r; error=dns_error"), (code::HOST_UNREACHABLE, BAD_GATEWAY));
        assert_eq!(of(502, "r; error=connection_refused"), (code::REFUSED, BAD_GATEWAY));
        assert_eq!(of(403, "r; error=destination_ip_prohibited"), (code::NOT_ALLOWED, "403 Forbidden"));
        assert_eq!(of(504, ""), (code::HOST_UNREACHABLE, TIMED_OUT));
        assert_eq!(of(407, ""), (code::NOT_ALLOWED, BAD_GATEWAY));
        assert_eq!(of(500, ""), (code::FAILURE, BAD_GATEWAY));
    }
}
