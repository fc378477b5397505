// SPDX-License-Identifier: Apache-2.0
//! Errors of requests: exceptions that the interface declares, and TApplicationException for all others.
use crate::p4runtime::Missing;
use thrift::ApplicationErrorKind;

/// Error of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// The exception that the method declares, by its code; the reason is for the log.
    Declared(i32, String),
    /// An exception with a text.
    Application(ApplicationErrorKind, String),
}

/// Result of a request whose value was written.
pub type Done = Result<(), Failure>;

impl Failure {
    pub fn reason(&self) -> &str {
        match self {
            Failure::Declared(_, reason) | Failure::Application(_, reason) => reason,
        }
    }
}

impl From<Missing> for Failure {
    fn from(e: Missing) -> Failure {
        internal(e.to_string())
    }
}

pub fn declared<T>(code: i32, reason: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Declared(code, reason.into()))
}

pub fn internal(reason: impl Into<String>) -> Failure {
    Failure::Application(ApplicationErrorKind::InternalError, reason.into())
}

pub fn protocol(reason: impl Into<String>) -> Failure {
    Failure::Application(ApplicationErrorKind::ProtocolError, reason.into())
}

/// TableOperationErrorCode.
pub mod table {
    pub const FULL: i32 = 1;
    pub const INVALID_HANDLE: i32 = 2;
    pub const EXPIRED_HANDLE: i32 = 3;
    pub const COUNTERS_DISABLED: i32 = 4;
    pub const METERS_DISABLED: i32 = 5;
    pub const AGEING_DISABLED: i32 = 6;
    pub const INVALID_TABLE_NAME: i32 = 7;
    pub const INVALID_ACTION_NAME: i32 = 8;
    pub const WRONG_TABLE_TYPE: i32 = 9;
    pub const INVALID_MBR_HANDLE: i32 = 10;
    pub const MBR_STILL_USED: i32 = 11;
    pub const MBR_ALREADY_IN_GRP: i32 = 12;
    pub const MBR_NOT_IN_GRP: i32 = 13;
    pub const INVALID_GRP_HANDLE: i32 = 14;
    pub const GRP_STILL_USED: i32 = 15;
    pub const DUPLICATE_ENTRY: i32 = 17;
    pub const BAD_MATCH_KEY: i32 = 18;
    pub const INVALID_METER_OPERATION: i32 = 19;
    pub const DEFAULT_ENTRY_IS_CONST: i32 = 21;
    pub const INVALID_ACTION_PROFILE_NAME: i32 = 23;
    pub const NO_ACTION_PROFILE_SELECTION: i32 = 24;
    pub const IMMUTABLE_TABLE_ENTRIES: i32 = 25;
    pub const BAD_ACTION_DATA: i32 = 26;
    pub const NO_TABLE_KEY: i32 = 27;
    pub const ERROR: i32 = 100;
}

/// Codes of counters and registers, and the first two of meters.
pub mod array {
    pub const INVALID_NAME: i32 = 1;
    pub const INVALID_INDEX: i32 = 2;
}

/// MeterOperationErrorCode.
pub mod meter {
    pub const BAD_RATES_LIST: i32 = 3;
    pub const INVALID_INFO_RATE_VALUE: i32 = 4;
    pub const INVALID_BURST_SIZE_VALUE: i32 = 5;
}

/// McOperationErrorCode.
pub mod multicast {
    pub const TABLE_FULL: i32 = 1;
    pub const INVALID_MGID: i32 = 2;
    pub const INVALID_MGRP_HANDLE: i32 = 3;
    pub const INVALID_L1_HANDLE: i32 = 4;
    pub const ERROR: i32 = 5;
}
