// SPDX-License-Identifier: Apache-2.0
//! [`Access`]: users of the proxy.

use boring::base64::encode_block;

/// Users of the proxy.
#[derive(Debug, Clone)]
pub enum Access {
    /// Any program that reaches the port.
    Open,
    /// Programs with this user and password.
    Password {
        /// User.
        user: Vec<u8>,
        /// Password.
        password: Vec<u8>,
        /// Both, as HTTP's Basic has them (RFC 7617).
        basic: Vec<u8>,
    },
}

/// Equality in a time that depends on the lengths alone.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && boring::memcmp::eq(a, b)
}

impl Access {
    /// Of `USER:PASSWORD`.
    pub fn of(text: &str) -> Option<Access> {
        let (user, password) = text.split_once(':')?;
        let fits = |part: &str| (1..=255).contains(&part.len());
        let basic = encode_block(text.as_bytes()).into_bytes();
        (fits(user) && fits(password)).then(|| Access::Password { user: user.into(), password: password.into(), basic })
    }

    /// Whether a user and a password are needed.
    pub fn needs_password(&self) -> bool {
        matches!(self, Access::Password { .. })
    }

    /// Whether this user with this password may use it.
    pub fn allows(&self, user: &[u8], password: &[u8]) -> bool {
        match self {
            Access::Open => true,
            // Both are compared, so that the time does not name the wrong one.
            Access::Password { user: u, password: p, .. } => same(user, u) & same(password, p),
        }
    }

    /// Whether a request with this `proxy-authorization` may use it.
    pub fn allows_basic(&self, authorization: Option<&[u8]>) -> bool {
        let Access::Password { basic, .. } = self else { return true };
        let Some((scheme, given)) = authorization.and_then(|value| value.split_at_checked(6)) else { return false };
        scheme.eq_ignore_ascii_case(b"basic ") && same(given.trim_ascii(), basic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_passwords() {
        let access = Access::of("user:pass:word").unwrap();
        assert!(access.allows(b"user", b"pass:word") && !access.allows(b"user", b"pass") && !access.allows(b"", b""));
        assert!(access.allows_basic(Some(b"basic dXNlcjpwYXNzOndvcmQ=")));
        assert!(!access.allows_basic(Some(b"Basic eA==")) && !access.allows_basic(None));
        assert!(!access.allows_basic(Some(b"Bas")));
        assert!(Access::of("user").is_none() && Access::of(":x").is_none());
        assert!(Access::Open.allows_basic(None));
    }
}
