use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{RetryPolicy, UniqueOptions};
use crate::error::{Error, ErrorKind, Result};

/// What a job asks for beyond its place in the queue. Most jobs ask for nothing, and pay for none of it.
///
/// It is stored with the job as one JSON object that omits the fields not given: the column `options` of the job tables.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(default)]
pub struct JobOptions {
    /// Exclusive group: no two jobs of one group run at the same time, on any node, in any queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Whether the group is held from this job's first start until it is gone: also while it waits for its next attempt, and as a dead
    /// letter.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ordered: bool,
    /// Tenant on whose behalf it runs. Rules of the scope `tenant`, and shares by tenant, use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Key that rules of the scope `key` use.
    #[serde(rename = "limit", skip_serializing_if = "Option::is_none")]
    pub limit_key: Option<String>,
    /// How long after its flush it may still start.
    #[serde(with = "micros", skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Duration>,
    /// End of its time to live, in microseconds since 1970 by the database's clock. Known from the flush on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[doc(hidden)]
    pub expires: Option<i64>,
    /// Its own delays between attempts.
    #[serde(with = "policy", skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    /// Key that it holds, and that no other job may hold meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unique: Option<UniqueOptions>,
}

impl JobOptions {
    /// Whether no option is set.
    #[doc(hidden)]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the stored form; `None` if no option is set.
    pub(crate) fn to_json(&self) -> Option<String> {
        // A struct of strings and numbers always serialises.
        (!self.is_empty()).then(|| serde_json::to_string(self).unwrap_or_else(|_| "{}".to_owned()))
    }

    /// Reads the options that admission needs, whatever else may be invalid: one unreadable job must not block all others. It is admitted
    /// by its own keys, and the node that claims it then finds the error.
    pub(crate) fn for_admission(text: &str) -> Self {
        Self::from_json(text).unwrap_or_else(|_| {
            let found: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
            // In the same way as the triggers of the schema: `options ->> 'group'`.
            let text = |name: &str| match found.get(name)? {
                serde_json::Value::Null => None,
                serde_json::Value::String(text) => Some(text.clone()),
                other => Some(other.to_string()),
            };
            let ordered = found.get("ordered").and_then(serde_json::Value::as_bool).unwrap_or_default();
            Self { group: text("group"), ordered, tenant: text("tenant"), limit_key: text("limit"), ..Self::default() }
        })
    }

    /// Reads stored options. Unknown options are ignored. An option that this build can't read is an error and never ignored: without its
    /// group, a job would run at the same time as jobs it must not overlap with.
    pub(crate) fn from_json(text: &str) -> Result<Self> {
        let refused =
            || format!("the options of a job ({text}) can't be read: correct the column `options`, or delete the job");
        // Serde would read an array by the order of its values, which no statement does.
        if !text.trim_start().starts_with('{') {
            return Err(Error::new(ErrorKind::Schema, format!("{}: they are not a JSON object", refused())));
        }
        serde_json::from_str(text).map_err(|error| Error::new(ErrorKind::Schema, refused()).with_source(error))
    }
}

/// Whole microseconds.
mod micros {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[expect(clippy::ref_option, reason = "serde calls it so")]
    pub(super) fn serialize<S: Serializer>(value: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
        value.map(|value| u64::try_from(value.as_micros()).unwrap_or(u64::MAX)).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(from)?.map(Duration::from_micros))
    }
}

/// As text, as in a configuration file.
mod policy {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::RetryPolicy;

    #[expect(clippy::ref_option, reason = "serde calls it so")]
    pub(super) fn serialize<S: Serializer>(value: &Option<RetryPolicy>, to: S) -> Result<S::Ok, S::Error> {
        value.as_ref().map(ToString::to_string).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<RetryPolicy>, D::Error> {
        Option::<String>::deserialize(from)?.map(|text| text.parse().map_err(serde::de::Error::custom)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_stored_as_nothing() {
        assert_eq!(JobOptions::default().to_json(), None);
        assert!(JobOptions::from_json("{}").unwrap().is_empty());
    }

    #[test]
    fn stored_options_are_read_again() {
        let options = JobOptions {
            group: Some("order-1".into()),
            ordered: true,
            tenant: Some("acme".into()),
            limit_key: Some("printer".into()),
            ttl: Some(Duration::from_millis(1500)),
            expires: None,
            retry: Some(RetryPolicy::Fixed(Duration::from_secs(30))),
            unique: None,
        };
        let text = options.to_json().unwrap();
        assert_eq!(
            text,
            r#"{"group":"order-1","ordered":true,"tenant":"acme","limit":"printer","ttl":1500000,"retry":"fixed(30s)"}"#
        );
        assert_eq!(JobOptions::from_json(&text).unwrap(), options);
    }

    #[test]
    fn unknown_options_are_ignored_and_broken_ones_refused() {
        assert!(JobOptions::from_json(r#"{"colour":"red"}"#).unwrap().is_empty());
        for broken in [r#"{"group":7}"#, r#"["g", true]"#, "[]", "null", "5"] {
            let error = JobOptions::from_json(broken).unwrap_err().to_string();
            assert!(error.contains("correct the column"), "{error}");
        }
    }
}
