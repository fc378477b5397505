// SPDX-License-Identifier: Apache-2.0
//! Value of an `#if` line's tokens, macros expanded: integers and C's operators; names count as 0.
use super::MAX_DEPTH;
use crate::syntax::lexer::{Token, TokenKind};
use num_bigint::BigInt;
use num_traits::{ToPrimitive, Zero};

/// Value of the operand at `at` and of the operators behind it that bind closer than `min`, at `depth` parentheses and prefixes.
///
/// # Errors
/// The reason; `at` is then the token that is wrong.
pub(super) fn value(t: &[Token], at: &mut usize, min: u8, depth: u32) -> Result<BigInt, String> {
    if depth > MAX_DEPTH {
        return Err("condition is nested too deep".into());
    }
    let Some(first) = t.get(*at) else {
        return Err("condition ends too early".into());
    };
    *at += 1;
    let truth = |b: bool| BigInt::from(b as u8);
    let mut left = match &first.tok {
        TokenKind::Int(v, _) => v.clone(),
        TokenKind::Ident(n) if n == "true" => BigInt::from(1),
        TokenKind::Ident(_) => BigInt::zero(),
        TokenKind::Punct("!") => truth(value(t, at, 11, depth + 1)?.is_zero()),
        TokenKind::Punct("-") => -value(t, at, 11, depth + 1)?,
        TokenKind::Punct("+") => value(t, at, 11, depth + 1)?,
        TokenKind::Punct("~") => !value(t, at, 11, depth + 1)?,
        TokenKind::Punct("(") => {
            let v = value(t, at, 0, depth + 1)?;
            if t.get(*at).map(|t| &t.tok) != Some(&TokenKind::Punct(")")) {
                return Err("`)` is missing in the condition".into());
            }
            *at += 1;
            v
        }
        _ => {
            *at -= 1;
            return Err("a number, a name or `(` is expected in a condition".into());
        }
    };
    loop {
        let punct = |k: usize| match t.get(k).map(|t| &t.tok) {
            Some(TokenKind::Punct(p)) => *p,
            _ => "",
        };
        let (op, width) = match (punct(*at), punct(*at + 1)) {
            (">", "=") => (">=", 2),
            (">", ">") => (">>", 2),
            (p, _) => (p, 1),
        };
        let level = match op {
            "||" => 1,
            "&&" => 2,
            "|" => 3,
            "^" => 4,
            "&" => 5,
            "==" | "!=" => 6,
            "<" | "<=" | ">" | ">=" => 7,
            "<<" | ">>" => 8,
            "+" | "-" => 9,
            "*" | "/" | "%" => 10,
            _ => return Ok(left),
        };
        if level <= min {
            return Ok(left);
        }
        let op_at = *at;
        *at += width;
        let right = value(t, at, level, depth + 1)?;
        left = match op {
            "||" => truth(!left.is_zero() || !right.is_zero()),
            "&&" => truth(!left.is_zero() && !right.is_zero()),
            "|" => left | right,
            "^" => left ^ right,
            "&" => left & right,
            "==" => truth(left == right),
            "!=" => truth(left != right),
            "<" => truth(left < right),
            "<=" => truth(left <= right),
            ">" => truth(left > right),
            ">=" => truth(left >= right),
            "+" => left + right,
            "-" => left - right,
            "*" => left * right,
            "<<" | ">>" => {
                let Some(n) = right.to_u32().filter(|n| *n < 4096) else {
                    *at = op_at;
                    return Err("shift count must be from 0 to 4095".into());
                };
                if op == "<<" { left << n } else { left >> n }
            }
            _ if right.is_zero() => {
                *at = op_at;
                return Err("division by zero in the condition".into());
            }
            "/" => left / right,
            _ => left % right,
        };
    }
}
