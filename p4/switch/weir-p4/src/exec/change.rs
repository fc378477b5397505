// SPDX-License-Identifier: Apache-2.0
//! Why state could not be changed.

/// Why a table or other state could not be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeError {
    /// There is no such object.
    NotFound(String),
    /// There is one already.
    Exists(String),
    /// It does not fit the program.
    Invalid(String),
    /// The limit is reached.
    Full(String),
}

impl std::fmt::Display for ChangeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ChangeError::NotFound(s) | ChangeError::Exists(s) | ChangeError::Invalid(s) | ChangeError::Full(s) => {
                f.write_str(s)
            }
        }
    }
}

impl std::error::Error for ChangeError {}
