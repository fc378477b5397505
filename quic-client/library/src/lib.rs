// SPDX-License-Identifier: Apache-2.0
//! QUIC and HTTP/3 client that uses several networks: each request takes the path that is expected to answer first.
//!
//! ```no_run
//! use std::io::Read;
//! use weir_quic::{Request, connect};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let connection = connect("https://example.org/", &["wlan0", "wwan0"])?;
//!     let mut response = connection.request(Request::get("/"))?;
//!     let mut text = String::new();
//!     response.read_to_string(&mut text)?;
//!     println!("{} over {}: {text}", response.status(), connection.status().path);
//!     Ok(())
//! }
//! ```
//!
//! | part | contents |
//! |---|---|
//! | [`Client`], [`Connection`], [`Request`], [`Response`] | the blocking interface |
//! | `tokio` | the asynchronous one (feature `tokio`) |
//! | [`Builder`] | settings: paths, strategy of path choice, windows, congestion control, observer of events |
//! | [`flow`] | the layer below, without threads: flows of a program that has an event loop |
//! | [`weir_core`] | the protocol without I/O, and the traits of the extension points |
//!
//! # Extension points
//!
//! | trait | given to |
//! |---|---|
//! | [`core::choice::Strategy`] | [`Builder::strategy`] |
//! | [`core::congestion::CongestionControl`] | [`Builder::congestion`] |
//! | [`core::window::WindowPolicy`] | [`Builder::window`] |
//! | [`Observer`] | [`Builder::observer`] |
//! | [`TicketStore`] | [`Builder::tickets`] |
//!
//! # Limits
//!
//! A connection holds at most 256 KiB of each direction of a request beside the transport's windows. Linux only: sockets
//! send and receive in batches, and interfaces come from netlink.
//!
//! The header section of a request must fit into the congestion window. A panic of an observer, a strategy or another part
//! of the program ends all connections of its client with an error. A client can't be used in a child after `fork`.

mod client;
mod config;
mod connection_state;
mod driver;
mod error;
pub mod flow;
pub mod local_paths;
mod notifier;
mod pipe;
mod request;
mod streamed;
pub mod target;
mod tickets;
#[cfg(feature = "tokio")]
pub mod tokio;

pub use bytes::Bytes;
pub use client::{BodyWriter, Client, Connection, PendingResponse, Response, connect};
pub use config::{Builder, Observer};
pub use connection_state::Status;
pub use error::{Error, ErrorKind};
pub use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
pub use request::Request;
pub use tickets::{FileTickets, MemoryTickets, TicketStore};
pub use weir_core as core;
