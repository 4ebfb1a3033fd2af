use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{RetryPolicy, UniqueTerm};
use crate::error::{Error, ErrorKind, Result};

/// What a job asks for beside a place in its queue. Most jobs ask for nothing, and pay for none of it.
///
/// Kept with the job as one JSON object without the parts that are not given; see the column `terms` of the job tables.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(default)]
pub struct Terms {
    /// No two jobs of one group run at the same time, on any node, in any queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The group is held from this job's first start until it is gone: while it waits for its next attempt, and as a dead letter.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ordered: bool,
    /// On whose behalf it runs: what rules of the scope `tenant`, and shares by tenant, go by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// What rules of the scope `key` go by.
    #[serde(rename = "limit", skip_serializing_if = "Option::is_none")]
    pub limit_key: Option<String>,
    /// How long after its flush it may still start.
    #[serde(with = "micros", skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Duration>,
    /// When that is over, in microseconds since 1970 by the database's clock; known from the flush on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<i64>,
    /// Its own delays between attempts.
    #[serde(with = "policy", skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    /// The key it holds, which no other job may have meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unique: Option<UniqueTerm>,
}

impl Terms {
    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// As it is stored: `None` for nothing.
    pub(crate) fn to_json(&self) -> Option<String> {
        // A struct of strings and numbers always serialises.
        (!self.is_empty()).then(|| serde_json::to_string(self).unwrap_or_else(|_| "{}".to_owned()))
    }

    /// Reads what admission goes by, whatever else may be wrong with them: one job that can't be read must not keep all others waiting. It is
    /// let through by its own gates, and whoever claims it then finds out.
    pub(crate) fn of_gates(text: &str) -> Self {
        Self::from_json(text).unwrap_or_else(|_| {
            let found: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
            // As the triggers of the schema take it: `terms ->> 'group'`.
            let text = |name: &str| match found.get(name)? {
                serde_json::Value::Null => None,
                serde_json::Value::String(text) => Some(text.clone()),
                other => Some(other.to_string()),
            };
            let ordered = found.get("ordered").and_then(serde_json::Value::as_bool).unwrap_or_default();
            Self { group: text("group"), ordered, tenant: text("tenant"), limit_key: text("limit"), ..Self::default() }
        })
    }

    /// Reads what is stored. What this build does not know is left alone; what it can't read is an error and never ignored: a job
    /// without its group would run beside what it must not.
    pub(crate) fn from_json(text: &str) -> Result<Self> {
        let refused =
            || format!("the terms of a job ({text}) can't be read: correct the column `terms`, or delete the job");
        // An array would be read by the order of its values, which no statement does.
        if !text.trim_start().starts_with('{') {
            return Err(Error::new(ErrorKind::Schema, format!("{}: they are no JSON object", refused())));
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

/// As text, like in a configuration file.
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
        assert_eq!(Terms::default().to_json(), None);
        assert!(Terms::from_json("{}").unwrap().is_empty());
    }

    #[test]
    fn what_is_stored_is_read_again() {
        let terms = Terms {
            group: Some("order-1".into()),
            ordered: true,
            tenant: Some("acme".into()),
            limit_key: Some("printer".into()),
            ttl: Some(Duration::from_millis(1500)),
            expires: None,
            retry: Some(RetryPolicy::Fixed(Duration::from_secs(30))),
            unique: None,
        };
        let text = terms.to_json().unwrap();
        assert_eq!(
            text,
            r#"{"group":"order-1","ordered":true,"tenant":"acme","limit":"printer","ttl":1500000,"retry":"fixed(30s)"}"#
        );
        assert_eq!(Terms::from_json(&text).unwrap(), terms);
    }

    #[test]
    fn what_a_newer_build_wrote_is_left_alone_and_what_is_broken_is_refused() {
        assert!(Terms::from_json(r#"{"colour":"red"}"#).unwrap().is_empty());
        for broken in [r#"{"group":7}"#, r#"["g", true]"#, "[]", "null", "5"] {
            let error = Terms::from_json(broken).unwrap_err().to_string();
            assert!(error.contains("correct the column"), "{error}");
        }
    }
}
