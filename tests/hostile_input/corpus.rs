//! Harmful or meaningless producer input, in no particular form. Each way in encodes it as it can, and leaves out what it has no field for.

/// A field beside the body. All values are text, valid or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Say {
    Kind,
    Queue,
    Id,
    Priority,
    /// The earliest time at which it may start.
    Due,
    /// The delay after which it may start.
    Delay,
    /// How long it may wait, in milliseconds.
    Ttl,
    Attempts,
    Group,
    Unique,
    Tenant,
    LimitKey,
    ReplyTo,
    Correlation,
    ContentType,
    Encoding,
    /// The user that is said to send it.
    User,
    Header(String),
}

/// The required result, whichever way it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Stored,
    Refused,
    /// One way accepts it, another has no such field, or can't see it.
    Either,
}

#[derive(Clone, Debug)]
pub(crate) struct Nasty {
    pub(crate) name: String,
    pub(crate) says: Vec<(Say, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
    pub(crate) fate: Fate,
    /// The number of nested arrays, as one header: only AMQP can express it.
    pub(crate) levels: usize,
}

impl Nasty {
    fn new(name: impl Into<String>, fate: Fate) -> Self {
        Self { name: name.into(), says: Vec::new(), body: b"{}".to_vec(), fate, levels: 0 }
    }

    fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    fn say(mut self, what: Say, value: impl Into<Vec<u8>>) -> Self {
        self.says.push((what, value.into()));
        self
    }

    fn header(self, name: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        self.say(Say::Header(name.into()), value)
    }

    /// Returns the value of this field.
    pub(crate) fn said(&self, what: &Say) -> Option<&[u8]> {
        self.says.iter().find(|(say, _)| say == what).map(|(_, value)| value.as_slice())
    }

    /// Returns the kind, which is `note` unless the entry has another one.
    pub(crate) fn kind(&self) -> &[u8] {
        self.said(&Say::Kind).unwrap_or(b"note")
    }

    /// Whether its job is for no executor here, or for a time that no test waits for.
    pub(crate) fn rests(&self) -> bool {
        let said = |what| self.said(&what).is_some();
        said(Say::Kind) || said(Say::Queue) || said(Say::Due) || said(Say::Delay)
    }
}

/// The limit of a payload by default.
const MOST: usize = 1024 * 1024;

/// Characters that no terminal and no log should be given unescaped, and that break lines, names or numbers.
const SIGNS: [(&str, &str); 9] = [
    ("nul", "a\0b"),
    ("newline", "a\nb"),
    ("escape", "a\x1b[2Jb"),
    ("C1 control", "a\u{9b}31mb"),
    ("bidi override", "a\u{202e}b"),
    ("bidi isolate", "a\u{2066}b"),
    ("line separator", "a\u{2028}b"),
    ("delete", "a\x7fb"),
    ("outer blanks", " ab "),
];

const NAMED: [(&str, Say); 6] = [
    ("kind", Say::Kind),
    ("queue", Say::Queue),
    ("group", Say::Group),
    ("unique key", Say::Unique),
    ("tenant", Say::Tenant),
    ("limit key", Say::LimitKey),
];

/// Returns all of it.
pub(crate) fn corpus() -> Vec<Nasty> {
    [bodies(), names(), numbers(), headers(), properties()].concat()
}

fn bodies() -> Vec<Nasty> {
    use Fate::{Either, Refused, Stored};
    let nest = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
    let objects = |levels: usize| "{\"a\":".repeat(levels) + "1" + &"}".repeat(levels);
    let quoted = |length: usize| format!("\"{}\"", "x".repeat(length - 2));
    let as_type = |name: &str, content_type: &str, fate| Nasty::new(name, fate).say(Say::ContentType, content_type);
    vec![
        // As text it has a blank after each comma, and is a third larger than it was sent.
        Nasty::new("empty arrays near the limit", Either).body(format!("[{}1]", "[],".repeat(349_000))),
        Nasty::new("empty arrays by the hundred thousand", Stored).body(format!("[{}1]", "[],".repeat(200_000))),
        Nasty::new("numbers by the hundred thousand", Stored).body(format!("[{}1]", "1,".repeat(300_000))),
        Nasty::new("one key a hundred thousand times", Stored)
            .body(format!("{{{}\"a\":1}}", "\"a\":1,".repeat(100_000))),
        Nasty::new("arrays 10,000 levels deep", Refused).body(nest(10_000)),
        Nasty::new("arrays 500,000 levels deep", Refused).body(nest(500_000)),
        Nasty::new("objects 10,000 levels deep", Refused).body(objects(10_000)),
        Nasty::new("arrays that are never closed", Refused).body("[".repeat(100_000)),
        Nasty::new("one small number", Either).body("1e-16383"),
        Nasty::new("small numbers in masses", Refused).body(format!("[{}1]", "1e-16383,".repeat(70_000))),
        Nasty::new("a number beyond a double", Either).body("1e400"),
        Nasty::new("an exponent beyond all", Refused).body("1e99999999999"),
        Nasty::new("a large exponent", Either).body("[1e131071,-1e131071]"),
        Nasty::new("a number of 100,000 digits", Either).body("1".repeat(100_000)),
        Nasty::new("a fraction of 100,000 digits", Either).body(format!("0.{}", "1".repeat(100_000))),
        Nasty::new("no number", Refused).body("NaN"),
        Nasty::new("a lone high surrogate", Refused).body(br#""\ud800""#),
        Nasty::new("a lone low surrogate", Refused).body(br#"{"a":"\udc00"}"#),
        Nasty::new("a NUL in a string", Refused).body(br#""a\u0000b""#),
        Nasty::new("a NUL in a key", Refused).body(br#"{"a\u0000b":1}"#),
        Nasty::new("a NUL between", Refused).body(b"{}\0"),
        Nasty::new("not UTF-8", Refused).body(b"\"\xff\xfe\""),
        Nasty::new("a surrogate in UTF-8", Refused).body(b"\"\xed\xa0\x80\""),
        Nasty::new("half a character", Refused).body(b"\"\xe2\x82"),
        Nasty::new("a mebibyte", Stored).body(quoted(MOST)),
        Nasty::new("a mebibyte and one", Refused).body(quoted(MOST + 1)),
        Nasty::new("two mebibytes", Refused).body(quoted(2 * MOST)),
        Nasty::new("nothing that says JSON", Refused).body(""),
        Nasty::new("two documents", Refused).body("{}{}"),
        Nasty::new("a byte order mark", Refused).body(b"\xef\xbb\xbf{}"),
        as_type("a Java object by its type", "application/x-java-serialized-object", Either)
            .body(b"\xac\xed\0\x05t\0\x01a"),
        as_type("a Java object as bytes", "application/octet-stream", Either).body(b"\xac\xed\0\x05t\0\x01a"),
        as_type("octets that are no text", "application/octet-stream", Either).body(vec![0xff; 1000]),
        as_type("a type that is none", "text\0plain", Either),
        as_type("a type of 300 bytes", &format!("a/{}", "b".repeat(300)), Either),
        as_type("a type with a line", "text/plain\r\nx: y", Either),
        as_type("garbage that says it is encrypted", "application/jose", Either).body(b"not.encrypted.at.all.."),
        as_type("encrypted, with a header that is none", "application/jose", Either).body(b"e30.e30.e30.e30.e30"),
        as_type("a problem", "application/problem+json", Either).body("{"),
        as_type("compressed", "application/json", Either)
            .say(Say::Encoding, "gzip")
            .body(b"\x1f\x8b\x08\0\0\0\0\0\0\x03"),
        as_type("an encoding that is none", "application/json", Either).say(Say::Encoding, "a\u{202e}b"),
    ]
}

fn names() -> Vec<Nasty> {
    use Fate::{Either, Refused, Stored};
    let mut all = Vec::new();
    for (what, say) in NAMED {
        let most = if matches!(say, Say::Kind | Say::Queue) { 100 } else { 200 };
        let named =
            |name: &str, fate, value: &[u8]| Nasty::new(format!("{what}: {name}"), fate).say(say.clone(), value);
        all.push(named("empty", Either, b""));
        all.push(named("as long as it may be", Stored, "n".repeat(most).as_bytes()));
        all.push(named("longer by one", Refused, "n".repeat(most + 1).as_bytes()));
        all.push(named("short in characters, not in bytes", Refused, "ä".repeat(most / 2 + 1).as_bytes()));
        all.push(named("100 kB", Refused, "n".repeat(100_000).as_bytes()));
        all.push(named("not UTF-8", Refused, b"a\xffb"));
        all.push(named("SQL", Stored, b"'; drop table job; --"));
        for (sign, text) in SIGNS {
            // Rules for names differ, but none allows a control character.
            let control = text.chars().any(|c| c.is_ascii_control());
            all.push(named(sign, if control { Refused } else { Either }, text.as_bytes()));
        }
    }
    for queue in ["jobwright.event", "jobwright.reply", "unreadable:default"] {
        all.push(Nasty::new(format!("queue: {queue}"), Either).say(Say::Queue, queue));
    }
    for id in ["", "a\0b", &"i".repeat(256), "00000000-0000-0000-0000-000000000000", "ID:", "not a UUID", "ID:ID:1"] {
        all.push(Nasty::new(format!("id: {:.20}", id.escape_debug()), Either).say(Say::Id, id));
    }
    all
}

fn numbers() -> Vec<Nasty> {
    use Fate::{Either, Refused, Stored};
    let mut all = Vec::new();
    let mut each = |what: &str, say: Say, values: &[(&str, Fate)]| {
        for (value, fate) in values {
            all.push(Nasty::new(format!("{what}: {value}"), *fate).say(say.clone(), *value));
        }
    };
    let priorities =
        [("32767", Stored), ("-32767", Stored), ("-32768", Either), ("32768", Refused), ("-32769", Refused)];
    each("priority", Say::Priority, &priorities);
    each(
        "priority",
        Say::Priority,
        &[("99999999999999999999", Refused), ("high", Refused), ("1e2", Refused), ("5.5", Either)],
    );
    let attempts = [("0", Refused), ("-1", Refused), ("1000000001", Refused), ("99999999999", Refused), ("1", Stored)];
    each("attempts", Say::Attempts, &attempts);
    each(
        "due",
        Say::Due,
        &[("9999-12-31T23:59:59Z", Refused), ("99999-01-01T00:00:00Z", Either), ("1969-12-31T23:59:59Z", Either)],
    );
    each(
        "due",
        Say::Due,
        &[
            ("-000001-01-01T00:00:00Z", Either),
            ("2030-02-30T00:00:00Z", Refused),
            ("soon", Refused),
            ("infinity", Refused),
        ],
    );
    each(
        "delay",
        Say::Delay,
        &[
            ("-5s", Either),
            ("101 years", Refused),
            ("PT99999999999999999999S", Refused),
            ("1e9", Either),
            ("soon", Refused),
        ],
    );
    each(
        "ttl",
        Say::Ttl,
        &[
            ("0", Either),
            ("-1", Refused),
            ("9223372036854775808", Refused),
            ("99999999999999999999999", Refused),
            ("soon", Refused),
        ],
    );
    all
}

fn headers() -> Vec<Nasty> {
    use Fate::{Either, Refused};
    let mut all = vec![
        Nasty::new("header: a name of 100 bytes", Either).header("n".repeat(100), "v"),
        Nasty::new("header: a name of 101 bytes", Either).header("n".repeat(101), "v"),
        Nasty::new("header: no name", Either).header("", "v"),
        Nasty::new("header: a value of 4096 bytes", Either).header("own", "v".repeat(4096)),
        Nasty::new("header: a value of 4097 bytes", Either).header("own", "v".repeat(4097)),
        Nasty::new("header: a value of 100 kB", Either).header("own", "v".repeat(100_000)),
        Nasty::new("header: not UTF-8", Refused).header("own", b"a\xffb"),
        Nasty::new("header: of the trace, garbage", Either).header("traceparent", "00-zz-\u{202e}"),
        Nasty::new("header: who sends it", Either).header("sentBy", "root"),
        Nasty::new("header: another job's", Either).header("jobId", "1").header("version", "x").header("attempt", "-1"),
        Nasty::new("header: named like an environment variable", Either)
            .header("LD_PRELOAD", "/tmp/x.so")
            .header("a=b", "c"),
    ];
    for (sign, text) in SIGNS {
        all.push(Nasty::new(format!("header: {sign} in a value"), Either).header("own", text));
        all.push(Nasty::new(format!("header: {sign} in a name"), Either).header(text, "v"));
    }
    let many = |count| {
        (0..count)
            .fold(Nasty::new(format!("header: {count} of them"), Either), |all, n| all.header(format!("h{n}"), "v"))
    };
    let large = (0..63)
        .fold(Nasty::new("header: 63 large ones", Either), |all, n| all.header(format!("h{n}"), "v".repeat(4000)));
    all.extend([many(64), many(65), many(2000), large]);
    for levels in [33, 2_000, 20_000] {
        all.push(Nasty { levels, ..Nasty::new(format!("header: arrays {levels} levels deep"), Either) });
    }
    all
}

fn properties() -> Vec<Nasty> {
    use Fate::Either;
    let mut all = Vec::new();
    let tos = [
        "amq.rabbitmq.reply-to",
        "amq.rabbitmq.reply-to.g1h2AA9yZXBseUA1.AAAA.x",
        "amq.direct",
        "amq.",
        "AMQ.gen",
        "",
        "other.submit",
        "jobwright.submit",
        "jobwright.reply",
        "jobwright.dead",
        "other.submit.rejected",
        "a\nb",
        "\u{202e}",
    ];
    for to in tos {
        all.push(Nasty::new(format!("reply to: {}", to.escape_debug()), Either).say(Say::ReplyTo, to));
    }
    all.push(Nasty::new("reply to: 256 bytes", Either).say(Say::ReplyTo, "r".repeat(256)));
    all.push(
        Nasty::new("correlation: 5000 bytes", Either)
            .say(Say::ReplyTo, "nobody")
            .say(Say::Correlation, "c".repeat(5000)),
    );
    all.push(Nasty::new("correlation: NUL", Either).say(Say::ReplyTo, "nobody").say(Say::Correlation, "a\0b"));
    // The broker itself refuses one that isn't the connection's.
    all.push(Nasty::new("user: somebody else", Either).say(Say::User, "somebody"));
    all.push(Nasty::new("user: the database's", Either).say(Say::User, "postgres"));
    all
}
