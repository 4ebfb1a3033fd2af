use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;

use super::*;
use crate::job::{EVENT_QUEUE, REPLY_QUEUE};

const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

fn key(id: &str) -> SealKey {
    SealKey::from_base64(id, KEY).unwrap()
}

fn pay() -> Label<'static> {
    Label::new(ContentKind::Payload, "pay")
}

fn sealed(seal: &Seal, content: Payload) -> String {
    let sealed = seal.encode(content, pay()).unwrap();
    assert_eq!(sealed.content_type(), "application/jose");
    sealed.as_str().unwrap().to_owned()
}

fn why(seal: &Seal, text: &str, label: Label<'_>) -> String {
    seal.decode(Payload::bytes("application/jose", text), label).unwrap_err().to_string()
}

/// Splits a JWE into its header and the rest.
fn apart(text: &str) -> (serde_json::Value, &str) {
    let (header, rest) = text.split_once('.').unwrap();
    (serde_json::from_slice(&BASE64.decode(header).unwrap()).unwrap(), rest)
}

#[test]
fn every_content_comes_back_as_it_was() {
    let long = format!("[{}]", vec!["\"again and again\""; 400].join(","));
    let contents = [
        Payload::json_text("{\"card\":\"4111\"}").unwrap(),
        Payload::json_text(long).unwrap(),
        Payload::text("Grüezi"),
        Payload::bytes("image/png", [0x89, 0, 255]),
        Payload::bytes("application/octet-stream", []),
    ];
    let seal = Seal::new(key("2026-11"));
    for codec in [&seal as &dyn Codec, &seal.clone().compress(true), &Gzip::new().min_size(0)] {
        for content in &contents {
            let kept = codec.encode(content.clone(), pay()).unwrap();
            assert_eq!(codec.decode(kept, pay()).unwrap(), *content, "{codec:?}");
        }
    }
    let [plain, long] = [false, true].map(|on| sealed(&seal.clone().compress(on), contents[1].clone()).len());
    assert!(long * 4 < plain, "compressed {long}, plain {plain}");
}

#[test]
fn two_seals_of_one_content_have_nothing_in_common_but_the_header() {
    let seal = Seal::new(key("2026-11"));
    let [one, other] = [(); 2].map(|()| sealed(&seal, Payload::text("x")));
    let common = one.split('.').zip(other.split('.')).filter(|(a, b)| a == b).count();
    assert_eq!(common, 1, "{one} {other}");
    let (header, _) = apart(&one);
    assert_eq!(
        header,
        serde_json::json!({ "kid": "2026-11", "alg": "A256KW", "enc": "A256GCM", "typ": "jobwright-payload",
            "cty": "text/plain; charset=utf-8", "kind": "pay" })
    );
}

/// Made by jwcrypto 1.1, with examples/python/sealed.py.
#[test]
fn payloads_sealed_by_another_library_are_opened() {
    let theirs = include_str!("jwcrypto.txt").trim();
    let opened = Seal::new(key("2026-11")).decode(Payload::bytes("application/jose", theirs), pay()).unwrap();
    assert_eq!(opened, Payload::json_text("{\"card\":\"4111\"}").unwrap());
}

#[test]
fn changed_or_moved_payloads_are_refused() {
    let seal = Seal::new(key("2026-11"));
    let text = sealed(&seal, Payload::text("x"));
    for (position, part) in text.split('.').enumerate() {
        let at = text.split('.').take(position).map(|part| part.len() + 1).sum::<usize>() + part.len() / 2;
        let other = if &text[at..=at] == "A" { "B" } else { "A" };
        let changed = format!("{}{other}{}", &text[..at], &text[at + 1..]);
        why(&seal, &changed, pay());
    }
    assert!(why(&seal, &text, Label::new(ContentKind::Payload, "refund")).contains("another kind"));
    assert!(why(&seal, &text, Label::new(ContentKind::Result, "pay")).contains("another part"));
    for part in ["", "a.b.c.d", "a.b.c.d.e.f", "....", "e30....", &text[..text.len() - 30]] {
        why(&seal, part, pay());
    }
}

#[test]
fn the_header_decides_nothing_that_we_do_not_do() {
    let seal = Seal::new(key("2026-11"));
    let text = sealed(&seal, Payload::text("x"));
    let (header, rest) = apart(&text);
    for (name, value) in [
        ("alg", "dir".into()),
        ("alg", "none".into()),
        ("enc", "A128CBC-HS256".into()),
        ("crit", serde_json::json!(["exp"])),
        ("zip", "DEF".into()),
        ("kid", "another".into()),
        ("cty", "application/json".into()),
    ] {
        let mut header = header.clone();
        header[name] = value;
        let forged = format!("{}.{rest}", BASE64.encode(header.to_string()));
        why(&seal, &forged, pay());
    }
}

#[test]
fn keys_are_changed_without_losing_what_was_sealed_before() {
    let old = Seal::new(key("old"));
    let text = sealed(&old, Payload::text("x"));
    let mut bytes = [9; 32];
    bytes[0] = 1;
    let new = Seal::new(SealKey::new("new", bytes).unwrap());
    assert!(why(&new, &text, pay()).contains("the key \"old\"; here there are new"));
    let both = new.also_opens(key("old"));
    let kept = Payload::bytes("application/jose", text);
    assert_eq!(both.decode(kept.clone(), pay()).unwrap(), Payload::text("x"));
    assert_eq!((old.is_current(&kept), both.is_current(&kept)), (true, false));
    // An id belongs to one key: another key with the same id opens nothing.
    bytes[0] = 2;
    let impostor = Seal::new(SealKey::new("old", bytes).unwrap());
    assert!(why(&impostor, kept.as_str().unwrap(), pay()).contains("called \"old\" too"));
}

#[test]
fn plain_content_passes_unless_only_sealed_is_taken() {
    let seal = Seal::new(key("k"));
    assert_eq!(seal.decode(Payload::text("x"), pay()).unwrap(), Payload::text("x"));
    let only = seal.clone().only_sealed(true);
    assert!(only.decode(Payload::text("x"), pay()).unwrap_err().to_string().contains("not sealed"));
    for queue in [EVENT_QUEUE, REPLY_QUEUE] {
        let label = pay().queue(queue);
        assert_eq!(only.encode(Payload::text("x"), label).unwrap(), Payload::text("x"));
        assert_ne!(only.clone().plain_queues(["other"]).encode(Payload::text("x"), label).unwrap(), Payload::text("x"));
    }
    // The sender sealed it, so it is not sealed again.
    let text = sealed(&seal, Payload::text("x"));
    assert_eq!(sealed(&seal, Payload::bytes("application/jose", text.clone())), text);
}

/// 20 MiB of one repeated byte compress to 20 kB.
#[test]
fn payloads_that_would_become_too_long_are_refused_early() {
    let long = Payload::bytes("text/plain", vec![b' '; 20 * 1024 * 1024]);
    let wide = pay().largest(32 * 1024 * 1024);
    for codec in [&Seal::new(key("k")).compress(true) as &dyn Codec, &Gzip::new()] {
        let bomb = codec.encode(long.clone(), wide).unwrap();
        assert!(bomb.as_bytes().len() < 100_000, "{codec:?}");
        assert!(
            codec.decode(bomb.clone(), pay()).unwrap_err().to_string().contains("longer than 1048576"),
            "{codec:?}"
        );
        assert_eq!(codec.decode(bomb, wide).unwrap(), long);
        // Content that is longer than allowed is not compressed: it could not be read again.
        let kept = codec.encode(long.clone(), pay()).unwrap();
        assert_eq!(codec.decode(kept, pay()).unwrap(), long);
    }
}

/// A panicking codec must not take its caller with it.
#[test]
fn a_codec_that_panics_has_failed() {
    #[derive(Debug)]
    struct Broken;
    impl Codec for Broken {
        fn encode(&self, _: Payload, _: Label<'_>) -> Result<Payload, BoxError> {
            panic!("broken")
        }
        fn decode(&self, _: Payload, _: Label<'_>) -> Result<Payload, BoxError> {
            panic!("broken")
        }
    }
    let codecs = Codecs::default().and(Arc::new(Broken), 1024);
    let said = codecs.encode(Payload::text("x"), pay()).unwrap_err().to_string();
    assert!(said.contains("the codec panicked"), "{said}");
    assert!(codecs.decode(Payload::text("x"), pay()).is_err());
}

#[test]
fn an_unusable_key_is_refused_with_a_reason_and_never_shown() {
    for (id, text, says) in [
        ("", KEY, "id"),
        ("a b", KEY, "id"),
        ("k", "c2VjcmV0", "base64 of 32 bytes"),
        ("k", "no base64 at all, secret", "base64 of 32 bytes"),
        ("k", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "same byte"),
    ] {
        let error = SealKey::from_base64(id, text).unwrap_err().to_string();
        assert!(error.contains(says) && !error.contains("secret") && !error.contains("c2Vj"), "{error}");
    }
    let urlsafe = SealKey::from_base64("k", " AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8\n").unwrap();
    assert_eq!(format!("{urlsafe:?}"), "SealKey(k)");
    assert!(!format!("{:?}", Seal::new(urlsafe)).contains('['));
}
