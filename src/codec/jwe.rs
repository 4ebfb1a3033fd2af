//! JWE in its compact form (RFC 7516), with the one combination of algorithms that a seal uses: `A256KW` and `A256GCM`.
//!
//! Each content has its own random key, which is wrapped with the key of the seal. So the random nonces of GCM do not bound the number of
//! contents under one key of the seal. (The bound would be 2^32 contents, NIST SP 800-38D, section 8.3: seven weeks at a thousand a
//! second.)

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom as _, SystemRandom};
use serde::{Deserialize, Serialize};

use super::SealKey;
use crate::error::BoxError;

pub(super) const ALG: &str = "A256KW";
pub(super) const ENC: &str = "A256GCM";
const TAG: usize = 16;

/// The protected header. It is authenticated, not encrypted.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) kid: String,
    pub(super) alg: String,
    pub(super) enc: String,
    /// `jobwright-payload` and so on: a result can't be passed off as a payload (explicit typing, RFC 8725, section 3.11).
    pub(super) typ: String,
    /// The content type of the encrypted content.
    pub(super) cty: String,
    /// The job's kind: content that was made for one kind can't be given to another.
    pub(super) kind: String,
    /// `DEF`: compressed before it was encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) zip: Option<String>,
    /// Extensions that a reader must understand; there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) crit: Option<serde_json::Value>,
}

pub(super) fn seal(key: &SealKey, header: &Header, content: &[u8]) -> Result<String, BoxError> {
    let random = SystemRandom::new();
    let (mut own, mut nonce) = ([0; 32], [0; NONCE_LEN]);
    random.fill(&mut own).and_then(|()| random.fill(&mut nonce)).map_err(|_| "the system gave no random bytes")?;
    let mut text = BASE64.encode(serde_json::to_vec(header)?);
    let mut body = content.to_vec();
    let tag = cipher(&own)?
        .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::from(text.as_bytes()), &mut body)
        .map_err(|_| "it could not be encrypted")?;
    for part in [&key.wrap(&own)[..], &nonce, &body, tag.as_ref()] {
        text.push('.');
        BASE64.encode_string(part, &mut text);
    }
    Ok(text)
}

/// Encrypted content in its parts, not yet decrypted.
pub(super) struct Sealed<'a> {
    pub(super) header: Header,
    protected: &'a str,
    wrapped: Vec<u8>,
    nonce: [u8; NONCE_LEN],
    /// The ciphertext, followed by its tag.
    body: Vec<u8>,
}

impl<'a> Sealed<'a> {
    pub(super) fn parse(text: &'a str) -> Result<Self, BoxError> {
        let mut parts = text.split('.');
        let mut next = || parts.next().ok_or("it is not a JWE of five parts");
        let (protected, wrapped, nonce, body, tag) = (next()?, next()?, next()?, next()?, next()?);
        if parts.next().is_some() {
            return Err("it is not a JWE of five parts".into());
        }
        let bytes = |part: &str| BASE64.decode(part).map_err(|_| "a part of the JWE is not base64url");
        let header = serde_json::from_slice(&bytes(protected)?).map_err(|error| {
            format!("the header of the JWE can't be read (it has kid, alg, enc, typ, cty, kind): {error}")
        })?;
        let mut body = bytes(body)?;
        let tag = bytes(tag)?;
        if tag.len() != TAG {
            return Err("the tag of the JWE does not have 16 bytes".into());
        }
        body.extend(tag);
        let nonce = bytes(nonce)?.try_into().map_err(|_| "the nonce of the JWE does not have 12 bytes")?;
        Ok(Self { header, protected, wrapped: bytes(wrapped)?, nonce, body })
    }

    /// Decrypts the content. The error only says that it failed, so that an attacker who changed it learns nothing.
    pub(super) fn open(self, key: &SealKey) -> Result<(Header, Vec<u8>), BoxError> {
        let Self { header, protected, wrapped, nonce, mut body } = self;
        let failed = || format!("it was changed, or sealed with another key that is called {:?} too", header.kid);
        let own = key.unwrap(&wrapped).ok_or_else(failed)?;
        let opened = cipher(&own)?
            .open_in_place(Nonce::assume_unique_for_key(nonce), Aad::from(protected.as_bytes()), &mut body)
            .map_err(|_| failed())?
            .len();
        body.truncate(opened);
        Ok((header, body))
    }
}

fn cipher(key: &[u8; 32]) -> Result<LessSafeKey, BoxError> {
    UnboundKey::new(&AES_256_GCM, key).map(LessSafeKey::new).map_err(|_| "the key can't be used".into())
}
