//! Reads URLs of servers, in one place. An unreadable URL is never shown. Of a readable one, only hosts, ports and the name of the database
//! or vhost are: a password that was not percent-encoded must not end up in a host that is printed.

use std::fmt;

/// One host of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Host {
    /// A name, an address without brackets, or the directory of a socket. Empty if only an address is given.
    pub(crate) name: String,
    /// `None`: the scheme's default.
    pub(crate) port: Option<u16>,
}

/// A parsed and decoded URL, or libpq's `host=… port=…`.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct ServerUrl {
    pub(crate) scheme: String,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) hosts: Vec<Host>,
    /// The database or vhost, without the leading `/`; `None` if there is none.
    pub(crate) path: Option<String>,
    /// The parameters in their order.
    pub(crate) params: Vec<(String, String)>,
}

/// The reason why a URL can't be read, without any part of the URL.
pub(crate) type Unreadable = &'static str;

const ENCODE: Unreadable =
    "an `@`, `/`, `?` or `#` in user, password or parameters must be percent-encoded (`%40`, `%2F`, `%3F`, `%23`)";
const HOST: Unreadable = "its host can't be read (is a special character of the password not percent-encoded?)";
const PORT: Unreadable = "its port is not a number (is a special character of the password not percent-encoded?)";
const PERCENT: Unreadable =
    "a `%` is not followed by two hexadecimal digits of UTF-8 (write `%25` for the character itself)";
const WORDS: Unreadable = "it is neither a URL nor a list of `key=value`";

impl ServerUrl {
    /// Reads `scheme://user:password@host:port,host:port/path?key=value`. It is stricter than other parsers where a password that is not
    /// encoded could be taken for something else.
    pub(crate) fn parse(text: &str) -> Result<Self, Unreadable> {
        let (scheme, rest) = text.split_once("://").ok_or(WORDS)?;
        if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err("it holds a space or a control character (write `%20` for a space)");
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        if authority.matches('@').count() > 1 || authority.contains('#') || rest.contains(['@', '#']) {
            return Err(ENCODE);
        }
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (credentials, hosts) = match authority.split_once('@') {
            Some((credentials, hosts)) => (Some(credentials), hosts),
            None => (None, authority),
        };
        let mut url = Self { scheme: scheme.to_owned(), ..Self::default() };
        if let Some(credentials) = credentials {
            let (user, password) = match credentials.split_once(':') {
                Some((user, password)) => (user, Some(password)),
                None => (credentials, None),
            };
            url.user = Some(decode(user)?).filter(|user| !user.is_empty());
            url.password = password.map(decode).transpose()?;
        }
        if !hosts.is_empty() {
            url.hosts = hosts.split(',').map(host).collect::<Result<_, _>>()?;
        }
        url.path = path.strip_prefix('/').map(decode).transpose()?;
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').ok_or("a parameter behind the `?` has no `=`")?;
            url.params.push((decode(key)?, decode(value)?));
        }
        Ok(url)
    }

    /// Reads libpq's `host=a,b port=5432 dbname='my db'`.
    pub(crate) fn parse_words(text: &str) -> Result<Self, Unreadable> {
        let mut url = Self { scheme: "postgres".to_owned(), ..Self::default() };
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let (key, after) = rest.split_once('=').ok_or(WORDS)?;
            let key = key.trim_end();
            if key.is_empty() || !key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_') {
                return Err(WORDS);
            }
            let (value, after) = word(after.trim_start())?;
            url.params.push((key.to_owned(), value));
            rest = after.trim_start();
        }
        Ok(url)
    }

    /// Moves the parts that libpq also accepts as parameters to their fields. A parameter takes precedence over the same part of the URL.
    pub(crate) fn settle_postgres(mut self) -> Result<Self, Unreadable> {
        let (mut names, mut ports) = (None, None);
        let mut kept = Vec::with_capacity(self.params.len());
        for (key, value) in std::mem::take(&mut self.params) {
            match key.as_str() {
                "host" => names = Some(value),
                "port" => ports = Some(value),
                "user" => self.user = Some(value),
                "password" => self.password = Some(value),
                "dbname" => self.path = Some(value),
                _ => kept.push((key, value)),
            }
        }
        self.params = kept;
        if let Some(names) = names {
            let old = std::mem::take(&mut self.hosts);
            let port = |n: usize| old.get(n).or(old.first()).and_then(|host| host.port);
            self.hosts =
                names.split(',').enumerate().map(|(n, name)| Host { name: name.to_owned(), port: port(n) }).collect();
            if self.hosts.iter().any(|host| !plausible(&host.name)) {
                return Err(HOST);
            }
        }
        let addresses = self.param("hostaddr").map_or(0, |list| list.split(',').count());
        while self.hosts.len() < addresses {
            self.hosts.push(Host { name: String::new(), port: None });
        }
        if let Some(ports) = ports {
            let ports: Vec<&str> = ports.split(',').collect();
            if ports.len() > 1 && ports.len() != self.hosts.len() {
                return Err("it needs one port, or as many ports as hosts");
            }
            for (n, host) in self.hosts.iter_mut().enumerate() {
                host.port = port(ports.get(n).or(ports.first()).copied().unwrap_or_default())?;
            }
        }
        self.path = self.path.filter(|path| !path.is_empty());
        Ok(self)
    }

    /// Returns the last parameter of this name.
    pub(crate) fn param(&self, name: &str) -> Option<&str> {
        self.params.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Shows hosts, ports and the path.
impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://", self.scheme)?;
        let addresses: Vec<&str> = self.param("hostaddr").map(|list| list.split(',').collect()).unwrap_or_default();
        for (n, Host { name, port }) in self.hosts.iter().enumerate() {
            let name = if name.is_empty() { addresses.get(n).copied().unwrap_or_default() } else { name };
            let comma = if n > 0 { "," } else { "" };
            if name.contains(':') {
                write!(f, "{comma}[{name}]")?;
            } else {
                write!(f, "{comma}{name}")?;
            }
            if let Some(port) = port {
                write!(f, ":{port}")?;
            }
        }
        self.path.as_ref().map_or(Ok(()), |path| write!(f, "/{path}"))
    }
}

impl fmt::Debug for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Splits a text with several URLs of brokers. In a well-encoded URL, no `,` is followed by a scheme.
pub(crate) fn split_list(text: &str) -> Vec<&str> {
    let mut urls = Vec::new();
    let mut rest = text;
    let next = |text: &str| [",amqp://", ",amqps://"].iter().filter_map(|mark| text.find(mark)).min();
    while let Some(at) = next(rest) {
        urls.push(&rest[..at]);
        rest = &rest[at + 1..];
    }
    urls.push(rest);
    urls
}

/// Returns a text without its secrets.
pub(crate) fn redacted(text: &str) -> String {
    if text.starts_with("sqlite:") {
        return text.to_owned();
    }
    match text.split_once("://").map(|(scheme, _)| scheme) {
        Some("postgres" | "postgresql") => ServerUrl::parse(text)
            .and_then(ServerUrl::settle_postgres)
            .map_or_else(|_| "postgres://(unreadable)".to_owned(), |url| url.to_string()),
        Some(scheme @ ("amqp" | "amqps")) => split_list(text)
            .into_iter()
            .map(|url| ServerUrl::parse(url).map(|url| url.to_string()))
            .collect::<Result<Vec<_>, _>>()
            .map_or_else(|_| format!("{scheme}://(unreadable)"), |urls| urls.join(",")),
        // The path of a webhook is as secret as a password.
        Some(scheme @ ("http" | "https")) => ServerUrl::parse(text)
            .map(|url| ServerUrl { path: None, ..url })
            .map_or_else(|_| format!("{scheme}://(unreadable)"), |url| url.to_string()),
        Some(_) => "***".to_owned(),
        None => ServerUrl::parse_words(text)
            .and_then(ServerUrl::settle_postgres)
            .ok()
            .filter(|url| !url.hosts.is_empty())
            .map_or_else(|| "***".to_owned(), |url| url.to_string()),
    }
}

fn host(text: &str) -> Result<Host, Unreadable> {
    if let Some(rest) = text.strip_prefix('[') {
        let (name, after) = rest.split_once(']').ok_or(HOST)?;
        if !name.bytes().all(|b| b.is_ascii_hexdigit() || b == b':' || b == b'.' || b == b'%') {
            return Err(HOST);
        }
        let port = match after.strip_prefix(':') {
            Some(text) => port(text)?,
            None if after.is_empty() => None,
            None => return Err(HOST),
        };
        return Ok(Host { name: name.to_owned(), port });
    }
    let (name, number) = text.split_once(':').unwrap_or((text, ""));
    let name = decode(name)?;
    if !plausible(&name) {
        return Err(HOST);
    }
    Ok(Host { name, port: port(number)? })
}

/// Whether a text may be a name, an address or a directory. A text that looks like the rest of a URL is refused: it could contain a
/// password, and hosts are shown.
fn plausible(name: &str) -> bool {
    (name.starts_with('/') && !name.starts_with("//") && !name.contains('@'))
        || name.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ':'))
}

fn port(text: &str) -> Result<Option<u16>, Unreadable> {
    if text.is_empty() { Ok(None) } else { text.parse().map(Some).map_err(|_| PORT) }
}

fn decode(text: &str) -> Result<String, Unreadable> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|b| char::from(b).to_digit(16)).ok_or(PERCENT);
        let value = digit()? * 16 + digit()?;
        bytes.push(u8::try_from(value).map_err(|_| PERCENT)?);
    }
    match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(text),
        _ => Err(PERCENT),
    }
}

/// Reads the value of `key=value`, which may be quoted, with `\` as the escape character. Returns it with the text that follows.
fn word(text: &str) -> Result<(String, &str), Unreadable> {
    let quoted = text.starts_with('\'');
    let mut value = String::new();
    let mut chars = text.char_indices().skip(usize::from(quoted));
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' if quoted => return Ok((value, &text[at + 1..])),
            '\\' => value.push(chars.next().ok_or(WORDS)?.1),
            c if c.is_whitespace() && !quoted => return Ok((value, &text[at..])),
            c => value.push(c),
        }
    }
    if quoted { Err(WORDS) } else { Ok((value, "")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart_and_decoded() {
        let url = ServerUrl::parse("postgres://u%40x:p%2F%25:w@a.example:1,[::1]:2,c/d%20b?x=%2Fy&z=").unwrap();
        assert_eq!((url.user.as_deref(), url.password.as_deref()), (Some("u@x"), Some("p/%:w")));
        let hosts: Vec<_> = url.hosts.iter().map(|host| (host.name.as_str(), host.port)).collect();
        assert_eq!(hosts, [("a.example", Some(1)), ("::1", Some(2)), ("c", None)]);
        assert_eq!((url.path.as_deref(), url.param("x"), url.param("z")), (Some("d b"), Some("/y"), Some("")));
        assert_eq!(url.to_string(), "postgres://a.example:1,[::1]:2,c/d b");
        let words = ServerUrl::parse_words(r"host=a,b port = 7 dbname='my \'db' password=x\ y").unwrap();
        let words = words.settle_postgres().unwrap();
        assert_eq!(words.password.as_deref(), Some("x y"));
        assert_eq!(words.to_string(), "postgres://a:7,b:7/my 'db");
        let socket = ServerUrl::parse("postgres:///d?host=/var/run&port=8").unwrap().settle_postgres().unwrap();
        assert_eq!(socket.to_string(), "postgres:///var/run:8/d");
    }

    /// Whatever the password is and however it was written, no part of it is shown.
    #[test]
    fn no_part_of_a_password_is_shown() {
        let pieces = ["sek", "ret", "pas", "wor"];
        let mut urls = Vec::new();
        for a in ["@", ":", "/", "?", "#", ",", "%", "&", "=", " ", "[", "]", "'", "\\", "%zz", "@:/?#", "?x=", "://"] {
            for b in ["@", ":", "/", "?", "#", "%40", ""] {
                let password = format!("sek{a}ret{b}pas{a}wor");
                for scheme in ["postgres", "postgresql", "amqp", "amqps", "https", "mysql"] {
                    urls.push(format!("{scheme}://user:{password}@host.example:99/db"));
                    urls.push(format!("{scheme}://user:x@host.example/db?password={password}"));
                }
                urls.push(format!("amqp://u:x@a.example,amqp://u:{password}@b.example"));
                urls.push(format!("host=a.example password={password}"));
                urls.push(format!("user:{password}@host.example/db"));
                urls.push(format!("host=//user:{password}@host.example/db"));
                urls.push(password);
            }
        }
        for url in urls {
            let shown = redacted(&url);
            assert!(pieces.iter().all(|piece| !shown.contains(piece)), "{url} is shown as {shown}");
        }
    }
}
