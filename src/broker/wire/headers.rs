//! Headers of outgoing messages.

use std::collections::BTreeMap;

use lapin::types::{AMQPValue, FieldTable, ShortString};

/// The size limit of all headers of a message together: they share one frame with the properties, whose usual limit is 128 KiB.
const BUDGET: usize = 96 * 1024;
/// The header with the number of a job's own headers that did not fit.
pub(super) const LEFT_OUT: &str = "headersLeftOut";
/// Headers that make the broker deliver to further queues. They are never passed on.
const COPIES: [&str; 2] = ["CC", "BCC"];

/// Converts a string for AMQP's limit of 255 bytes. `None`: it is longer.
pub(super) fn short(text: &str) -> Option<ShortString> {
    ShortString::try_new(text).ok()
}

/// Strings in headers are long strings. RabbitMQ knows no others, and the library would write the other type for a `ShortString`.
pub(super) fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.into())
}

/// Returns whether a name means something to the broker, to JMS clients or to jobwright. A job's own header of such a name is not sent.
pub(super) fn is_reserved(name: &str) -> bool {
    COPIES.contains(&name) || ["x-", "JMS", "rmq.", "jobwright-"].iter().any(|prefix| name.starts_with(prefix))
}

/// Headers under construction.
#[derive(Debug, Default)]
pub(super) struct Headers {
    entries: BTreeMap<ShortString, AMQPValue>,
    size: usize,
}

impl Headers {
    /// Copies the headers of a message, without those that would send it elsewhere. If they exceed the limit, only `headersLeftOut` remains.
    pub(super) fn copied(table: Option<&FieldTable>) -> Self {
        Self::those(table, |name| !COPIES.contains(&name))
    }

    /// Does the same without the headers that the broker and jobwright added.
    pub(super) fn original(table: Option<&FieldTable>) -> Self {
        let ours = |name: &str| ["x-", "jobwright-"].iter().any(|prefix| name.starts_with(prefix));
        Self::those(table, |name| !COPIES.contains(&name) && !ours(name))
    }

    fn those(table: Option<&FieldTable>, wanted: impl Fn(&str) -> bool) -> Self {
        let mut headers = Self::default();
        for (name, value) in table.into_iter().flatten() {
            if wanted(name.as_str()) {
                headers.size += name.as_str().len() + size(value);
                headers.entries.insert(name.clone(), value.clone());
            }
        }
        if headers.size > BUDGET {
            let count = i64::try_from(headers.entries.len()).unwrap_or(i64::MAX);
            return Self::default().number(LEFT_OUT, count);
        }
        headers
    }

    /// Adds a string.
    pub(super) fn text(self, name: &'static str, value: &str) -> Self {
        self.set(name, text(value))
    }

    /// Adds a number: always 64 bits, so that readers find one type.
    pub(super) fn number(self, name: &'static str, value: i64) -> Self {
        self.set(name, AMQPValue::LongLongInt(value))
    }

    fn set(mut self, name: &'static str, value: AMQPValue) -> Self {
        self.size += name.len() + size(&value);
        self.entries.insert(name.into(), value);
        self
    }

    /// Adds a job's own headers, those with unused names that fit.
    pub(super) fn own(mut self, own: &BTreeMap<String, String>) -> Self {
        let mut left_out = 0;
        for (name, value) in own {
            if is_reserved(name) || self.entries.contains_key(name.as_str()) {
                continue;
            }
            let more = name.len() + value.len() + OVERHEAD;
            match short(name) {
                Some(name) if self.size + more <= BUDGET => {
                    self.size += more;
                    self.entries.insert(name, text(value));
                }
                _ => left_out += 1,
            }
        }
        if left_out == 0 { self } else { self.number(LEFT_OUT, left_out) }
    }

    pub(super) fn table(self) -> FieldTable {
        self.entries.into()
    }
}

/// Bytes of a field in addition to its name and value.
const OVERHEAD: usize = 6;

fn size(value: &AMQPValue) -> usize {
    OVERHEAD
        + match value {
            AMQPValue::LongString(text) => text.len(),
            AMQPValue::ShortString(text) => text.as_str().len(),
            AMQPValue::ByteArray(bytes) => bytes.len(),
            AMQPValue::FieldArray(values) => values.as_slice().iter().map(size).sum(),
            AMQPValue::FieldTable(table) => {
                table.into_iter().map(|(name, value)| name.as_str().len() + size(value)).sum()
            }
            _ => 8,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_headers_travel_as_long_strings_and_cannot_take_our_names() {
        let own = [("tenant", "acme"), ("jobId", "mine"), ("x-death", "no"), ("JMSType", "no"), ("CC", "elsewhere")];
        let own = own.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let table = Headers::default().text("jobId", "ours").own(&own).table();
        let names: Vec<_> = table.inner().keys().map(ToString::to_string).collect();
        assert_eq!(names, ["jobId", "tenant"]);
        assert_eq!(table.inner()["jobId"], AMQPValue::LongString("ours".into()));
        assert_eq!(table.inner()["tenant"], AMQPValue::LongString("acme".into()));
    }

    #[test]
    fn headers_that_do_not_fit_into_a_frame_are_left_out_and_counted() {
        let own =
            (0..64).map(|n| (format!("h{n:02}"), "v".repeat(4096))).chain([("n".repeat(300), String::new())]).collect();
        let table = Headers::default().own(&own).table();
        let Some(AMQPValue::LongLongInt(left_out)) = table.inner().get(LEFT_OUT) else { panic!("not counted") };
        assert_eq!(table.inner().len() - 1 + usize::try_from(*left_out).unwrap(), 65);
        assert!(table.inner().len() > 20);
        assert!(size(&AMQPValue::FieldTable(table.clone())) < 100 * 1024);

        let full = BTreeMap::from([(short("big").unwrap(), text(&"v".repeat(120_000)))]).into();
        let copied = Headers::copied(Some(&full)).table();
        assert_eq!(copied.inner()[LEFT_OUT], AMQPValue::LongLongInt(1));
        assert!(!copied.contains_key("big"));
    }
}
