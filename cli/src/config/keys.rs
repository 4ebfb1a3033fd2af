//! The keys of the configuration: their names, their types, and a suggestion for a mistyped one.

use std::time::Duration;

use jobwright::RetryPolicy;
use jobwright::internal::parse_duration;
use jobwright::internal::parse_span;
use toml::Value as Toml;

/// The type of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Number,
    Flag,
    Duration,
    /// A duration, or for ever.
    Span,
    /// A list of texts.
    Words,
    /// A text, or a list of texts.
    Texts,
    Retry,
    /// A port, or a host and a port.
    Address,
}

/// The value given for a key.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Text(String),
    Number(usize),
    Flag(bool),
    Duration(Duration),
    Span(Option<Duration>),
    Words(Vec<String>),
    Retry(RetryPolicy),
}

/// A section: `[executor]`, or with a name of the user's choice: `[queues.NAME]`.
pub(super) struct Section {
    pub(super) name: &'static str,
    pub(super) named: bool,
    pub(super) keys: &'static [(&'static str, Kind)],
}

/// The rules by the broker's users.
pub(super) const SUBMIT_RULES: &str = "submit.rules";

/// All keys.
pub(super) const SECTIONS: &[Section] = &[
    Section {
        name: "database",
        named: false,
        keys: &[
            ("url", Kind::Text),
            ("schema", Kind::Text),
            ("max_connections", Kind::Number),
            ("pgbouncer", Kind::Flag),
            ("call_timeout", Kind::Duration),
            ("connect_timeout", Kind::Duration),
            ("max_payload", Kind::Number),
        ],
    },
    Section {
        name: "broker",
        named: false,
        keys: &[
            ("url", Kind::Text),
            ("required", Kind::Flag),
            ("prefix", Kind::Text),
            ("declare", Kind::Flag),
            ("queue_type", Kind::Text),
            ("depth", Kind::Number),
            ("submit_depth", Kind::Number),
            ("submit_bytes", Kind::Number),
            ("intake", Kind::Flag),
            ("direct_reply", Kind::Flag),
            ("report_tokens", Kind::Flag),
            ("reply_to", Kind::Words),
            ("intake_rate", Kind::Number),
            ("intake_bytes", Kind::Number),
            ("connect_timeout", Kind::Duration),
            ("confirm_timeout", Kind::Duration),
            ("heartbeat", Kind::Duration),
        ],
    },
    Section {
        name: SUBMIT_RULES,
        named: true,
        keys: &[
            ("kinds", Kind::Words),
            ("queues", Kind::Words),
            ("tenants", Kind::Words),
            ("groups", Kind::Words),
            ("limit_keys", Kind::Words),
            ("unique_keys", Kind::Words),
            ("max_priority", Kind::Number),
            ("max_delay", Kind::Duration),
        ],
    },
    Section {
        name: "executor",
        named: false,
        keys: &[
            ("name", Kind::Text),
            ("lease", Kind::Duration),
            ("grace", Kind::Duration),
            ("cancel_grace", Kind::Duration),
            ("stall_timeout", Kind::Duration),
            ("poll_interval", Kind::Duration),
            ("conflict_retries", Kind::Number),
            ("quarantine_after", Kind::Number),
        ],
    },
    Section { name: "http", named: false, keys: &[("listen", Kind::Address)] },
    Section {
        name: "queues",
        named: true,
        keys: &[
            ("concurrency", Kind::Number),
            ("retry", Kind::Retry),
            ("external", Kind::Flag),
            ("lease", Kind::Duration),
            ("depth", Kind::Number),
        ],
    },
    Section {
        name: "handlers",
        named: true,
        keys: &[
            ("command", Kind::Words),
            ("url", Kind::Texts),
            ("timeout", Kind::Duration),
            ("concurrency", Kind::Number),
            ("retry", Kind::Retry),
            ("reply", Kind::Flag),
            ("pass_urls", Kind::Flag),
            ("stop_grace", Kind::Duration),
            ("later", Kind::Duration),
        ],
    },
    Section {
        name: "seal",
        named: false,
        keys: &[
            ("key", Kind::Text),
            ("compress", Kind::Flag),
            ("plain_queues", Kind::Words),
            ("plain_errors", Kind::Flag),
            ("only_sealed", Kind::Flag),
        ],
    },
    Section { name: "seal_keys", named: true, keys: &[("secret", Kind::Text), ("file", Kind::Text)] },
    Section {
        name: "history",
        named: false,
        keys: &[
            ("keep", Kind::Text),
            ("retention", Kind::Duration),
            ("results", Kind::Duration),
            ("audit", Kind::Span),
            ("dead_letters", Kind::Span),
        ],
    },
];

/// Returns the section of this name.
pub(super) fn section(name: &str) -> Option<&'static Section> {
    SECTIONS.iter().find(|section| section.name == name)
}

impl Section {
    pub(super) fn kind(&self, key: &str) -> Option<Kind> {
        self.keys.iter().find(|(name, _)| *name == key).map(|(_, kind)| *kind)
    }
}

impl Kind {
    /// Reads a value from the file. The error never shows the value: it may be a misplaced secret.
    pub(super) fn read_toml(self, value: &Toml) -> Result<Value, String> {
        match (self, value) {
            (Self::Text | Self::Texts, Toml::String(text)) if text.trim().is_empty() => {
                Err("it is empty: give it a value, or remove the line".to_owned())
            }
            (Self::Text | Self::Address, Toml::String(text)) => Ok(Value::Text(text.clone())),
            (Self::Number, Toml::Integer(number)) => {
                usize::try_from(*number).map(Value::Number).map_err(|_| "it can't be negative".to_owned())
            }
            (Self::Flag, Toml::Boolean(flag)) => Ok(Value::Flag(*flag)),
            (Self::Duration, Toml::String(text)) => duration(text),
            (Self::Span, Toml::String(text)) => span(text),
            (Self::Address, Toml::Integer(port)) => Ok(Value::Text(port.to_string())),
            (Self::Retry, Toml::String(text)) => retry(text),
            (Self::Texts, Toml::String(text)) => Ok(Value::Words(vec![text.clone()])),
            (Self::Words | Self::Texts, Toml::Array(words)) if words.iter().all(Toml::is_str) => {
                Ok(Value::Words(words.iter().filter_map(Toml::as_str).map(str::to_owned).collect()))
            }
            _ => Err(format!("it takes {}, not {}", self.wanted(), type_of(value))),
        }
    }

    /// Reads a value from the environment.
    pub(super) fn read_text(self, text: &str) -> Result<Value, String> {
        let wanted = || format!("it takes {}", self.wanted());
        match self {
            Self::Text | Self::Address => Ok(Value::Text(text.to_owned())),
            Self::Number => text.trim().parse().map(Value::Number).map_err(|_| wanted()),
            Self::Flag => text.trim().parse().map(Value::Flag).map_err(|_| wanted()),
            Self::Duration => duration(text),
            Self::Span => span(text),
            Self::Retry => retry(text),
            Self::Texts if !text.trim_start().starts_with('[') => Ok(Value::Words(vec![text.to_owned()])),
            Self::Words | Self::Texts => serde_json::from_str(text).map(Value::Words).map_err(|_| wanted()),
        }
    }

    fn wanted(self) -> &'static str {
        match self {
            Self::Text => "a text",
            Self::Number => "a whole number",
            Self::Flag => "`true` or `false`",
            Self::Duration => "a duration such as \"30s\"",
            Self::Span => "a duration such as \"90d\", or \"forever\"",
            Self::Words => "a list of texts such as [\"python3\", \"x.py\"]",
            Self::Texts => "a text, or a list of texts",
            Self::Address => "a port such as 9469, or an address such as \"0.0.0.0:9469\"",
            Self::Retry => "a retry policy such as \"PT1M,PT5M\" or \"exponential(2s, 2, 1h)\"",
        }
    }
}

fn duration(text: &str) -> Result<Value, String> {
    parse_duration(text)
        .map(Value::Duration)
        .map_err(|why| shown(text, why, "it is not a duration (write `30s`, `1m 30s` or `PT1M30S`)"))
}

fn span(text: &str) -> Result<Value, String> {
    parse_span(text)
        .map(Value::Span)
        .map_err(|why| shown(text, why, "it is not a duration (write `90d` or `P90D`), nor `forever`"))
}

fn retry(text: &str) -> Result<Value, String> {
    text.parse().map(Value::Retry).map_err(|error: jobwright::Error| {
        shown(text, error.to_string(), "it is not a retry policy (write `fixed(30s)` or `PT1M,PT5M`)")
    })
}

/// Returns why a text is refused, or only what is wanted if the reason would show a text that must not be shown.
fn shown(text: &str, why: String, wanted: &str) -> String {
    if may_be_shown(text) { why } else { wanted.to_owned() }
}

/// Whether a text looks like a mistyped duration, and not like a misplaced URL or key.
fn may_be_shown(text: &str) -> bool {
    text.len() <= 40 && !text.contains(['@', '/', '='])
}

fn type_of(value: &Toml) -> &'static str {
    match value {
        Toml::String(_) => "a text",
        Toml::Integer(_) => "a whole number",
        Toml::Float(_) => "a decimal number",
        Toml::Boolean(_) => "true or false",
        Toml::Datetime(_) => "a date",
        Toml::Array(_) => "a list",
        Toml::Table(_) => "a table",
    }
}

/// Returns the candidate whose spelling is closest to `text`. Only the beginning of a very long text is compared.
pub(super) fn nearest<'a>(text: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const LONGEST: usize = 64;
    let text: String = text.chars().take(LONGEST).collect();
    let length = text.chars().count();
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        // They differ by at least as many letters as one is longer.
        let least = length.abs_diff(candidate.chars().count());
        if best.is_none_or(|(distance, _)| least < distance) {
            let distance = strsim::damerau_levenshtein(&text, candidate);
            if best.is_none_or(|(known, _)| distance < known) {
                best = Some((distance, candidate));
            }
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Converts a name to its form in the environment.
pub(super) fn shout(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect()
}
