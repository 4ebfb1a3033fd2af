//! Durations in settings.

use std::time::Duration;

use serde::{Deserialize, Deserializer};

use crate::job::parse_duration;

/// Reads a duration as text (`"30s"`, `"PT30S"`).
pub(super) fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_duration(&text).map_err(serde::de::Error::custom)
}

/// Reads one that may be missing.
pub(super) fn optional_duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    duration(deserializer).map(Some)
}
