// SPDX-License-Identifier: Apache-2.0
//! Types that are numbers in the program and strings to controllers (`@p4runtime_translation("...", string)`, P4Runtime
//! 8.4.6): which string stands for which number.
use crate::value::Val;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Strings longer than this, and more of them, are refused.
pub const MAX_BYTES: usize = 256;
/// More strings of one type than this are refused.
pub const MAX_STRINGS: usize = 1 << 16;

/// The strings of one type. They stand for the same numbers as long as the program runs.
#[derive(Debug)]
pub struct Strings {
    name: String,
    largest: u128,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    numbers: HashMap<String, u128>,
    strings: HashMap<u128, String>,
    /// No number from 1 to this is free.
    taken_up_to: u128,
}

/// Why a string has no number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The string cannot stand for a number of this type.
    Wrong(String),
    /// The limit of strings is reached.
    Full(String),
}

/// Whether a P4Info says the same does not depend on controllers' later strings.
impl PartialEq for Strings {
    fn eq(&self, other: &Strings) -> bool {
        (&self.name, self.largest) == (&other.name, other.largest)
    }
}

impl Strings {
    /// Of a type of so many bits, with the pairs that its program fixes.
    pub fn new(name: &str, bits: u32, fixed: &[(String, u128)]) -> Strings {
        let mut known = Known::default();
        for (string, number) in fixed {
            known.numbers.insert(string.clone(), *number);
            known.strings.insert(*number, string.clone());
        }
        let largest = 1u128.checked_shl(bits).map_or(u128::MAX, |n| n - 1);
        Strings { name: name.into(), largest, known: Mutex::new(known) }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Each statement leaves its data consistent.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number that a string stands for: the one fixed for it; itself, written in decimal digits; or the smallest
    /// free from 1 on, given out when the string is first seen.
    ///
    /// # Errors
    /// The string is none, or there is no number for it.
    pub fn number(&self, bytes: &[u8]) -> Result<Val, Refused> {
        let text = Self::text(bytes)?;
        let mut known = self.known();
        if let Some(n) = known.numbers.get(text) {
            return Ok(Val::S(*n));
        }
        if let Some(n) = Self::decimal(text) {
            self.free(&known, n)?;
            if known.numbers.len() >= MAX_STRINGS {
                return Err(self.full());
            }
            // Taken, so that no other string gets it.
            known.numbers.insert(text.into(), n);
            known.strings.insert(n, text.into());
            return Ok(Val::S(n));
        }
        let mut n = known.taken_up_to + 1;
        while known.strings.contains_key(&n) {
            n += 1;
        }
        if n > self.largest || known.numbers.len() >= MAX_STRINGS {
            return Err(self.full());
        }
        known.taken_up_to = n;
        known.numbers.insert(text.into(), n);
        known.strings.insert(n, text.into());
        Ok(Val::S(n))
    }

    /// As [`Strings::number`], without assigning: `None` for a string that has no number, which gets none by it.
    ///
    /// # Errors
    /// The string is none.
    pub fn known_number(&self, bytes: &[u8]) -> Result<Option<Val>, Refused> {
        let text = Self::text(bytes)?;
        let known = self.known();
        if let Some(n) = known.numbers.get(text) {
            return Ok(Some(Val::S(*n)));
        }
        let Some(n) = Self::decimal(text) else { return Ok(None) };
        // Entries of the program itself may have it.
        self.free(&known, n).map(|()| Some(Val::S(n)))
    }

    fn text(bytes: &[u8]) -> Result<&str, Refused> {
        let text = std::str::from_utf8(bytes).map_err(|_| Refused::Wrong("the string is not UTF-8".into()))?;
        if text.len() > MAX_BYTES {
            return Err(Refused::Wrong(format!("the string has more than {MAX_BYTES} bytes")));
        }
        Ok(text)
    }

    fn decimal(text: &str) -> Option<u128> {
        text.parse::<u128>().ok().filter(|n| n.to_string() == text)
    }

    /// Whether a number can stand for itself.
    fn free(&self, known: &Known, n: u128) -> Result<(), Refused> {
        match known.strings.get(&n) {
            _ if n > self.largest => {
                Err(Refused::Wrong(format!("{n} is above {}, the largest of type {}", self.largest, self.name)))
            }
            Some(other) => Err(Refused::Wrong(format!("{n} is the number of \"{}\"", other.escape_debug()))),
            None => Ok(()),
        }
    }

    fn full(&self) -> Refused {
        Refused::Full(format!("type {} has no number left for another string", self.name))
    }

    /// The string for a number: the one that stands for it, or its decimal digits.
    pub fn string(&self, v: &Val) -> Vec<u8> {
        let n = v.low();
        self.known().strings.get(&n).cloned().unwrap_or_else(|| n.to_string()).into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_come_back_and_keep_their_numbers() {
        let s = Strings::new("vrf_t", 8, &[(String::new(), 0), ("two".into(), 2)]);
        for (text, n) in [("", 0), ("blue", 1), ("two", 2), ("red", 3), ("blue", 1), ("17", 17), ("017", 4)] {
            assert_eq!(s.number(text.as_bytes()), Ok(Val::S(n)), "{text}");
            assert_eq!(s.string(&Val::S(n)), text.as_bytes());
        }
        assert_eq!(s.string(&Val::S(200)), b"200");
    }

    #[test]
    fn who_only_asks_takes_no_number() {
        let s = Strings::new("bit_t", 2, &[(String::new(), 0), ("two".into(), 2)]);
        for i in 0..10 {
            assert_eq!(s.known_number(format!("none{i}").as_bytes()), Ok(None));
        }
        // A number stands for itself, and is still free for a string.
        assert_eq!(s.known_number(b"1"), Ok(Some(Val::S(1))));
        assert_eq!(s.number(b"a"), Ok(Val::S(1)));
        assert_eq!(s.number(b"b"), Ok(Val::S(3)));
        for (text, n) in [("a", 1), ("b", 3), ("two", 2)] {
            assert_eq!(s.known_number(text.as_bytes()), Ok(Some(Val::S(n))), "{text}");
        }
        assert_eq!(s.known_number(b"c"), Ok(None));
        // Errors are the same.
        assert_eq!(s.known_number(b"4").unwrap_err(), s.number(b"4").unwrap_err());
        assert_eq!(s.known_number(&[0xff]).unwrap_err(), s.number(&[0xff]).unwrap_err());
    }

    #[test]
    fn what_has_no_number_is_said() {
        let s = Strings::new("bit_t", 1, &[(String::new(), 0)]);
        assert_eq!(s.number(b"a"), Ok(Val::S(1)));
        assert_eq!(s.number(b"b"), Err(Refused::Full("type bit_t has no number left for another string".into())));
        let wrong = |bytes: &[u8], text: &str| assert_eq!(s.number(bytes), Err(Refused::Wrong(text.into())));
        wrong(b"1", "1 is the number of \"a\"");
        wrong(b"2", "2 is above 1, the largest of type bit_t");
        wrong(&[0xff], "the string is not UTF-8");
        wrong(&[b'x'; 257], "the string has more than 256 bytes");
    }
}
