//! `[seal]` and `[seal_keys.ID]`: payloads encrypted at rest.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jobwright::Secret;
use jobwright::codec::{Seal, SealKey};
use jobwright::internal::small_file;

use super::keys::Value;

/// `[seal]` while it is being read.
#[derive(Clone, Debug, Default)]
pub(super) struct Draft {
    key: Option<String>,
    compress: bool,
    plain_queues: Option<Vec<String>>,
    plain_errors: bool,
    only_sealed: bool,
    /// By id.
    pub(super) keys: BTreeMap<String, KeyDraft>,
}

/// `[seal_keys.ID]` while it is being read.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyDraft {
    secret: Option<Secret>,
    file: Option<PathBuf>,
}

impl Draft {
    pub(super) fn set(&mut self, key: &str, value: Value) -> Result<(), String> {
        match (key, value) {
            ("key", Value::Text(id)) => self.key = Some(id),
            ("compress", Value::Flag(on)) => self.compress = on,
            ("plain_queues", Value::Words(names)) => self.plain_queues = Some(names),
            ("plain_errors", Value::Flag(on)) => self.plain_errors = on,
            ("only_sealed", Value::Flag(on)) => self.only_sealed = on,
            _ => return Err("unknown key".to_owned()),
        }
        Ok(())
    }

    /// Whether a key itself was given, rather than its file.
    pub(super) fn holds_secret(&self) -> bool {
        self.keys.values().any(|key| key.secret.is_some())
    }

    /// Returns all named ids. That of the sealing key is included: a variable names it before the other variables hold the keys.
    pub(super) fn ids(&self) -> impl Iterator<Item = &String> {
        self.keys.keys().chain(&self.key)
    }

    /// Returns the files that contain keys.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        self.keys.values().filter_map(|key| key.file.clone()).collect()
    }

    /// Whether a key needed for sealing or opening is missing.
    pub(super) fn lacks_key(&self) -> bool {
        let is_there = |id| self.keys.contains_key(id);
        !self.key.as_ref().is_some_and(is_there) || self.keys.values().any(KeyDraft::is_empty)
    }

    /// Builds the codec. `None` means that nothing is sealed.
    pub(super) fn finish(self) -> Result<Option<Seal>, String> {
        let Self { key, compress, plain_queues, plain_errors, only_sealed, keys } = self;
        let Some(id) = key else {
            if keys.is_empty() && !compress && !plain_errors && !only_sealed && plain_queues.is_none() {
                return Ok(None);
            }
            return Err("`[seal]` has no `key`: name the key of `[seal_keys.ID]` that seals".to_owned());
        };
        let mut all = Vec::with_capacity(keys.len());
        for (id, draft) in keys {
            all.push(draft.finish(&id).map_err(|why| format!("`[seal_keys.{id}]` {why}"))?);
        }
        let Some(at) = all.iter().position(|key| key.id() == id) else {
            // Without the id itself: it may be a misplaced key.
            let ids = all.iter().map(SealKey::id).collect::<Vec<_>>().join(", ");
            let there = if ids.is_empty() { "there is none".to_owned() } else { format!("there are {ids}") };
            return Err(format!("`seal.key` names no section `[seal_keys.ID]`; {there}"));
        };
        let mut seal =
            Seal::new(all.swap_remove(at)).compress(compress).plain_errors(plain_errors).only_sealed(only_sealed);
        if let Some(queues) = plain_queues {
            seal = seal.plain_queues(queues);
        }
        Ok(Some(all.into_iter().fold(seal, Seal::also_opens)))
    }
}

impl KeyDraft {
    pub(super) fn set(&mut self, key: &str, value: Value) -> Result<(), String> {
        match (key, value) {
            ("secret", Value::Text(secret)) => self.secret = Some(Secret::new(secret)),
            ("file", Value::Text(path)) => self.file = Some(path.into()),
            _ => return Err("unknown key".to_owned()),
        }
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.secret.is_none() && self.file.is_none()
    }

    fn finish(self, id: &str) -> Result<SealKey, String> {
        let text = match (self.secret, self.file) {
            (Some(secret), None) => secret.expose().to_owned(),
            // Without the path itself: it may be a misplaced key.
            (None, Some(path)) => read(&path).map_err(|error| format!("names a file that can't be read: {error}"))?,
            (None, None) => return Err("has neither `secret` nor `file`: give one of them".to_owned()),
            (Some(_), Some(_)) => return Err("has both `secret` and `file`: remove one of them".to_owned()),
        };
        SealKey::from_base64(id, &text).map_err(|error| format!("can't be used: {error}"))
    }
}

fn read(path: &Path) -> std::io::Result<String> {
    let (bytes, _) = small_file::read(path)?;
    String::from_utf8(bytes).map_err(|_| std::io::Error::other("it is not valid UTF-8"))
}
