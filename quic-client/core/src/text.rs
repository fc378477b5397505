// SPDX-License-Identifier: Apache-2.0
//! Text received from others, made safe for a terminal or a log.

use std::borrow::Cow;
use std::fmt::Write;

/// Whether a terminal would do something other than show it: control characters, and characters that turn the direction
/// of text or have no width, so that one line can be mistaken for another or for several.
fn acts(c: char) -> bool {
    let invisible = matches!(
        c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
    );
    c.is_control() || invisible
}

/// The same text, with control characters that a terminal would act on written out as `\u{1b}`. Escaped text stays as
/// it is.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match acts(c) {
            true => {
                // Writing to a string does not fail.
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
            false => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Bytes that should be UTF-8, likewise.
pub fn printable_bytes(bytes: &[u8]) -> String {
    printable(&String::from_utf8_lossy(bytes)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_a_terminal_acts_on_is_written_out() {
        assert_eq!(printable("naïve – 漢字 \\ ok"), "naïve – 漢字 \\ ok");
        assert_eq!(printable("\x1b]0;pwned\x07"), "\\u{1b}]0;pwned\\u{7}");
        assert_eq!(printable("a\nb\r\tc\x7f\u{9b}31m\u{202e}x"), "a\\u{a}b\\u{d}\\u{9}c\\u{7f}\\u{9b}31m\\u{202e}x");
        assert_eq!(printable_bytes(b"\xff\x1b[2J"), "\u{fffd}\\u{1b}[2J");
    }

    proptest! {
        #[test]
        fn nothing_acts_and_twice_is_once(text in any::<String>()) {
            let once = printable(&text).into_owned();
            prop_assert!(!once.contains(acts) && once.lines().count() <= 1);
            prop_assert_eq!(printable(&once), once.as_str());
        }
    }
}
