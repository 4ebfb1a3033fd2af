//! The content of jobs.

use jobwright::codec::{Codec as _, ContentKind, Gzip, Label, Seal, SealKey};
use jobwright::internal::engine::testing;
use jobwright::{NewJob, Payload};

/// The default of `database.max_payload`.
const LARGEST: usize = 1024 * 1024;

/// Checks a JSON text, as any sender may give it.
pub(crate) fn payload(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Ok(payload) = Payload::json_text(text) else { return };
    let Ok(message) = testing::message(NewJob::new("kind", payload)) else { return };
    // PostgreSQL writes out each number of a `jsonb`: that must stay within the limit too.
    let value: serde_json::Value = message.payload.decode().expect("what was checked is JSON");
    assert!(message.payload.as_bytes().len() <= LARGEST);
    assert!(!has_nul(&value), "PostgreSQL keeps no NUL");
    assert!(written_out(text) <= LARGEST, "{} bytes when it is written out", written_out(text));
}

fn has_nul(value: &serde_json::Value) -> bool {
    match value {
        serde_json::Value::String(text) => text.contains('\0'),
        serde_json::Value::Array(values) => values.iter().any(has_nul),
        serde_json::Value::Object(fields) => fields.iter().any(|(name, value)| name.contains('\0') || has_nul(value)),
        _ => false,
    }
}

/// Returns a lower bound of what PostgreSQL makes of the exponents in a text, computed differently from the library: each number outside of strings
/// has at least as many digits as its exponent says.
fn written_out(text: &str) -> usize {
    let (mut length, mut in_string, mut escaped) = (0, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            'e' | 'E' if !in_string && text[..at].ends_with(|c: char| c.is_ascii_digit()) => {
                let exponent = text[at + 1..].trim_start_matches(['+', '-']);
                let digits = exponent.bytes().take_while(u8::is_ascii_digit).count();
                length += exponent[..digits].parse::<usize>().unwrap_or(usize::MAX / 2).saturating_sub(64);
            }
            _ => {}
        }
    }
    length
}

pub(crate) fn payload_seeds() -> Vec<Vec<u8>> {
    [
        r#"{"order":42,"lines":[{"sku":"a","n":1.5e3},null,true]}"#,
        "1e400",
        "-1.25e-400",
        "[1e300,1e300,1e300]",
        r#""\ud83d\ude00""#,
        r#""\ud800""#,
        r#"{"a":"\u0000"}"#,
        "[[[[[[[[]]]]]]]]",
        "123456789012345678901234567890",
        "[-0.0, 0e0, 1E+2]",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}

/// The content of the seeds: once, and repeated this often.
const SHORT: &str = "x";
const LONG: usize = 600;

/// Checks data of unknown origin in place of encoded content.
pub(crate) fn sealed(input: &[u8]) {
    let label = Label::new(ContentKind::Payload, "pay");
    let seal = seal().compress(true);
    let given = Payload::bytes("application/jose", input);
    if let Ok(opened) = seal.decode(given, label) {
        // Nothing else was ever sealed with the key.
        assert!([Payload::text(SHORT), Payload::text(SHORT.repeat(LONG))].contains(&opened), "forged: {opened:?}");
    }
    let _ = Gzip::new().decode(Payload::bytes("application/gzip;of=text/plain", input), label);
    for plain in [Payload::bytes("application/octet-stream", input), Payload::text(String::from_utf8_lossy(input))] {
        let kept = seal.encode(plain.clone(), label).expect("anything can be sealed");
        assert_eq!(seal.decode(kept, label).expect("what was sealed is opened"), plain);
    }
}

fn seal() -> Seal {
    let key: [u8; 32] = std::array::from_fn(|position| position as u8);
    Seal::new(SealKey::new("k", key).expect("a good key"))
}

pub(crate) fn sealed_seeds() -> Vec<Vec<u8>> {
    use std::sync::LazyLock;
    static SEEDS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
        let label = Label::new(ContentKind::Payload, "pay");
        let long = Payload::text(SHORT.repeat(LONG));
        [seal().encode(Payload::text(SHORT), label), seal().compress(true).encode(long, label)]
            .into_iter()
            .flatten()
            .map(|sealed| sealed.as_bytes().to_vec())
            .collect()
    });
    SEEDS.clone()
}
