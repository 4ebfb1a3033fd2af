//! Keys of a seal.

use std::fmt;

use aes_kw::KwAes256;
use aes_kw::cipher::KeyInit as _;
use aes_kw::cipher::typenum::U32;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

use crate::error::{Error, Result};

/// Longest id of a key, in bytes.
const ID_MAX: usize = 64;
const LENGTH: usize = 32;

/// A key of 256 bits with an id. Sealed content names the id of its key, which is no secret.
#[derive(Clone)]
pub struct SealKey {
    id: String,
    cipher: KwAes256,
}

impl SealKey {
    /// Creates a key. `id`: 1 to 64 letters, digits, `.`, `_` or `-`. `key`: 32 random bytes (`openssl rand -base64 32`), not a password.
    ///
    /// # Errors
    /// When the id can't be used, or all bytes of the key are the same.
    pub fn new(id: impl Into<String>, key: [u8; LENGTH]) -> Result<Self> {
        let id = id.into();
        let known = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if id.is_empty() || id.len() > ID_MAX || !id.bytes().all(known) {
            return Err(Error::config(format!(
                "a key's id has 1 to {ID_MAX} letters, digits, `.`, `_` or `-`; this one has {} bytes",
                id.len()
            )));
        }
        if key.iter().all(|byte| *byte == key[0]) {
            return Err(Error::config(format!("the key {id:?} is the same byte throughout; use 32 random bytes")));
        }
        Ok(Self { id, cipher: KwAes256::new(&key.into()) })
    }

    /// Creates a key from base64, in either alphabet, with or without padding. Surrounding spaces and line ends are ignored.
    ///
    /// # Errors
    /// When the text is not the base64 of 32 bytes, or as [`new`](Self::new). The message never contains any of the text.
    pub fn from_base64(id: impl Into<String>, text: &str) -> Result<Self> {
        let id = id.into();
        let text = text.trim();
        let bytes = STANDARD.decode(text).or_else(|_| URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')));
        let key: [u8; LENGTH] = bytes.ok().and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| {
            Error::config(format!(
                "the key {id:?} is not the base64 of {LENGTH} bytes; `openssl rand -base64 {LENGTH}` makes one"
            ))
        })?;
        Self::new(id, key)
    }

    /// Returns the id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Wraps the key of one content with this key.
    pub(super) fn wrap(&self, key: &[u8; LENGTH]) -> [u8; LENGTH + 8] {
        self.cipher.wrap_fixed_key::<U32>(&(*key).into()).into()
    }

    /// Unwraps the key of one content. `None` means that it was wrapped with another key, or changed.
    pub(super) fn unwrap(&self, wrapped: &[u8]) -> Option<[u8; LENGTH]> {
        let mut key = [0; LENGTH];
        self.cipher.unwrap_key(wrapped, &mut key).ok().filter(|key| key.len() == LENGTH)?;
        Some(key)
    }
}

/// Shows only the id.
impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealKey({})", self.id)
    }
}
