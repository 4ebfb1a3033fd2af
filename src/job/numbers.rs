//! Refuses numbers in a JSON text that are short as written and long as stored.
//!
//! PostgreSQL's `jsonb` stores a number with all of its digits: `1e-16383` is eight bytes as written and sixteen thousand as stored. A
//! payload full of such numbers has gigabytes as text, and a process that claims or reads its job would run out of memory.

use crate::error::{Error, Result};

/// The largest exponent, in both directions. Doubles end at 308, and at -324.
const EXPONENT_MAX: usize = 400;

/// Refuses a JSON text with a number beyond that, or with more than `limit` bytes once its numbers are written out.
pub(crate) fn check(json: &str, limit: usize) -> Result<()> {
    if !may_have_exponents(json) {
        return Ok(());
    }
    let mut length = json.len();
    for exponent in exponents(json.as_bytes()) {
        let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        let size = match digits.trim_start_matches('0') {
            "" => 0,
            digits if digits.len() <= 3 => digits.parse().unwrap_or(usize::MAX),
            _ => usize::MAX,
        };
        if size > EXPONENT_MAX {
            let shown: String = exponent.chars().take(10).collect();
            return Err(Error::invalid(format!(
                "the payload has a number with the exponent {shown}; {EXPONENT_MAX} is the limit, send it as a string"
            )));
        }
        length += size;
    }
    if length > limit {
        return Err(Error::invalid(format!(
            "the payload has {} bytes, and {length} when its numbers are written out, as PostgreSQL keeps them; {limit} is the limit \
             (`database.max_payload`): send such numbers as strings",
            json.len()
        )));
    }
    Ok(())
}

/// Whether any digit is followed by an `e`. Nearly always none is, and then the text need not be scanned with care.
fn may_have_exponents(json: &str) -> bool {
    json.as_bytes().windows(2).any(|pair| pair[1] | 0x20 == b'e' && pair[0].is_ascii_digit())
}

/// Returns the exponents of all numbers, with their signs. Outside of strings, an `e` after a digit begins one.
fn exponents(json: &[u8]) -> impl Iterator<Item = &str> {
    let mut at = 0;
    let mut in_string = false;
    std::iter::from_fn(move || {
        while at < json.len() {
            let byte = json[at];
            at += 1;
            match byte {
                // An escaped character can't end the string.
                b'\\' if in_string => at += 1,
                b'"' => in_string = !in_string,
                b'e' | b'E' if !in_string && at >= 2 && json[at - 2].is_ascii_digit() => {
                    let sign = usize::from(matches!(json.get(at), Some(b'+' | b'-')));
                    let digits = json[at + sign..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                    let exponent = &json[at..at + sign + digits];
                    at += sign + digits;
                    return std::str::from_utf8(exponent).ok();
                }
                _ => {}
            }
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_count_with_their_exponents_written_out() {
        let limit = 1000;
        for good in
            ["1e308", "[1e+308,1E-300]", "0.5", "true", r#""1e99999""#, r#"{"1e99999":"\"1e99999"}"#, "1e0000000000001"]
        {
            check(good, limit).unwrap_or_else(|error| panic!("{good}: {error}"));
        }
        for bad in ["1e-16383", "1e401", "-2.5E+99999999999999999999", r#"{"a\\":1e500}"#] {
            assert!(check(bad, limit).is_err_and(|error| error.to_string().contains("exponent")), "{bad}");
        }
        let many = format!("[{}0]", "1e300,".repeat(4));
        assert!(check(&many, limit).is_err_and(|error| error.to_string().contains("written out")));
        check(&many, 2000).unwrap();
    }
}
