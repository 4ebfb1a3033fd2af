//! The bounds of a hand-out to an external worker: its longest lease, and the token that proves to which worker the job was handed.

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac as _};
use sha2::Sha256;

use super::Fence;

/// The longest lease that an external worker can ask for.
pub(crate) const LONGEST_LEASE: Duration = Duration::from_secs(7 * 24 * 3600);

/// Bytes of a token: 128 bits, which can't be guessed.
const LENGTH: usize = 16;
/// Separates tokens from anything else that may ever be made with this key.
const PURPOSE: &[u8] = b"jobwright report ";

/// Makes the tokens of hand-outs: HMAC-SHA-256 over job and version, with a secret that only the database has.
///
/// The version of a hand-out is no secret: all hand-outs of one call have the same one, and every reader of the database sees it. The token
/// is in the delivery and nowhere else.
#[derive(Clone)]
pub struct ReportKey(Hmac<Sha256>);

impl ReportKey {
    /// Creates a key from these bytes, which have to be random.
    pub fn new(key: [u8; 32]) -> Self {
        // One block of the hash, padded as HMAC does. A block of that length can't fail.
        let mut block = [0; 64];
        block[..key.len()].copy_from_slice(&key);
        Self(Hmac::new(&block.into()))
    }

    /// Returns the token that is sent with this hand-out: 22 letters, digits, `-` and `_`.
    pub(crate) fn token(&self, fence: Fence) -> String {
        URL_SAFE_NO_PAD.encode(&self.over(fence).finalize().into_bytes()[..LENGTH])
    }

    /// Whether this is the token of that hand-out. Takes as long for a wrong token as for a right one.
    pub(crate) fn fits(&self, fence: Fence, token: &str) -> bool {
        let Ok(bytes) = URL_SAFE_NO_PAD.decode(token) else { return false };
        // Of a shorter token, only the beginning would be compared.
        bytes.len() == LENGTH && self.over(fence).verify_truncated_left(&bytes).is_ok()
    }

    fn over(&self, fence: Fence) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        mac.update(PURPOSE);
        mac.update(fence.id.as_uuid().as_bytes());
        mac.update(&fence.version.to_be_bytes());
        mac
    }
}

impl fmt::Debug for ReportKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReportKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::JobId;

    fn fence() -> Fence {
        Fence::new("0198c0de-0000-7000-8000-000000000001".parse().unwrap(), 3)
    }

    #[test]
    fn a_token_is_of_one_job_one_version_and_one_key() {
        let key = ReportKey::new([7; 32]);
        let token = key.token(fence());
        assert_eq!(token, "K7Ph4MwZxItN5iDdqQILig");
        assert!(key.fits(fence(), &token));
        for other in [Fence::new(fence().id, 4), Fence::new(JobId::new(), 3)] {
            assert!(!key.fits(other, &token), "{other:?}");
        }
        assert!(!ReportKey::new([8; 32]).fits(fence(), &token));
        assert_eq!(format!("{key:?}"), "ReportKey(..)");
    }

    /// Otherwise the first byte could be guessed within 256 tries.
    #[test]
    fn a_token_that_was_cut_is_none() {
        let key = ReportKey::new([7; 32]);
        let token = key.token(fence());
        // 2 characters encode one byte.
        for cut in [0, 2, 3, 4, 20, 21] {
            assert!(!key.fits(fence(), &token[..cut]), "{cut}");
        }
        let whole = URL_SAFE_NO_PAD.encode(key.over(fence()).finalize().into_bytes());
        for wrong in [whole, format!("{token}=="), format!("{token} "), "ä".repeat(11), "x".repeat(100_000)] {
            assert!(!key.fits(fence(), &wrong), "{wrong:.30}");
        }
    }
}
