//! The sources of settings: a file and the environment.

use std::fmt::Display;
use std::path::Path;

use jobwright::internal::small_file;

use super::keys::{SECTIONS, SUBMIT_RULES, Section, nearest, section, shout};
use super::settings::Settings;
use super::trust;
use crate::failure::Failure;
use crate::handlers::{HOOKS_WITHHELD, KEYS_WITHHELD, WITHHELD};

const PREFIX: &str = "JOBWRIGHT_";

/// Variables that a worker sets for the programs it starts. Such a program may call `jobwright` itself.
const FOR_HANDLERS: &[&str] = &[
    "JOB_ID",
    "KIND",
    "QUEUE",
    "ATTEMPT",
    "MAX_ATTEMPTS",
    "PRIORITY",
    "CONTENT_TYPE",
    "CREATED_AT",
    "HEADERS",
    "HEADERS_LEFT_OUT",
    "TRACEPARENT",
    "TRACESTATE",
    "URLS_WITHHELD",
    "HOOKS_WITHHELD",
    "KEYS_WITHHELD",
];

/// Whether Kubernetes sets this variable in every pod, for a Service that is named `jobwright` or `jobwright-…`.
fn is_of_kubernetes(rest: &str) -> bool {
    let port = |rest: &str| rest == "PORT" || rest.starts_with("PORT_");
    let service = |rest: &str| rest == "SERVICE_HOST" || rest == "SERVICE_PORT" || rest.starts_with("SERVICE_PORT_");
    let tail = |rest: &str| port(rest) || service(rest);
    // `jobwright-worker` becomes JOBWRIGHT_WORKER_SERVICE_HOST, JOBWRIGHT_WORKER_PORT_80_TCP_ADDR and so on.
    tail(rest) || rest.match_indices('_').any(|(at, _)| tail(&rest[at + 1..]))
}

/// Reads the file. If nobody named it, it must be trustworthy.
pub(super) fn apply_file(settings: &mut Settings, path: &Path, is_named: bool) -> Result<(), Failure> {
    let shown = path.display();
    let refused = |why: &dyn Display| Failure::Usage(format!("the configuration file {shown} can't be read: {why}"));
    let (bytes, metadata) = small_file::read(path).map_err(|error| refused(&error))?;
    if !is_named {
        trust::require(path, &metadata)?;
    }
    let text = String::from_utf8(bytes).map_err(|_| refused(&"it is not valid UTF-8"))?;
    apply_text(settings, &text, &shown.to_string())
}

/// Reads the text of a file; messages call the file `shown`.
pub(super) fn apply_text(settings: &mut Settings, text: &str, shown: &str) -> Result<(), Failure> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        // Without the error's own text: it quotes the line, which may contain a password.
        let line = error.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        Failure::Usage(format!("{shown}, line {line}: {}", error.message()))
    })?;
    for (name, content) in rooted(&table, shown)? {
        let (name, content) = (name.as_str(), content);
        let unknown = |what: &str, meant: Option<&str>| {
            Failure::Usage(format!("unknown {what} in {shown}; did you mean `{}`?", meant.unwrap_or_default()))
        };
        let Some(section) = section(name) else {
            let what = format!("{} `{name}`", if content.is_table() { "section" } else { "key" });
            return Err(unknown(&what, nearest(name, SECTIONS.iter().map(|section| section.name))));
        };
        let example = if section.named { ".NAME" } else { "" };
        let not_a_table =
            |path: &str| Failure::Usage(format!("`{path}` in {shown} is not a section: write `[{name}{example}]`"));
        let content = content.as_table().ok_or_else(|| not_a_table(name))?;
        if section.named {
            settings.mention(section.name, "");
            for (own, content) in content {
                let path = format!("{name}.{own}");
                let content = content.as_table().ok_or_else(|| not_a_table(&path))?;
                apply_section(settings, section, Some(own), content, shown)?;
            }
        } else {
            apply_section(settings, section, None, content, shown)?;
        }
    }
    Ok(())
}

/// Returns the sections of a file by their names; one of these names has two parts.
fn rooted<'a>(table: &'a toml::Table, file: &str) -> Result<Vec<(String, &'a toml::Value)>, Failure> {
    let mut sections = Vec::new();
    for (name, content) in table {
        match SUBMIT_RULES.strip_prefix(name.as_str()).and_then(|rest| rest.strip_prefix('.')) {
            None => sections.push((name.clone(), content)),
            Some(inner) => {
                let Some(inside) = content.as_table() else {
                    let what = format!("`{name}` in {file} is not a section: write `[{SUBMIT_RULES}.USER]`");
                    return Err(Failure::Usage(what));
                };
                if let Some(other) = inside.keys().find(|key| *key != inner) {
                    let what = format!("unknown key `{name}.{other}` in {file}; did you mean `{SUBMIT_RULES}`?");
                    return Err(Failure::Usage(what));
                }
                sections.extend(inside.values().map(|content| (SUBMIT_RULES.to_owned(), content)));
            }
        }
    }
    Ok(sections)
}

fn apply_section(
    settings: &mut Settings,
    section: &Section,
    name: Option<&str>,
    content: &toml::Table,
    file: &str,
) -> Result<(), Failure> {
    let place = name.map_or_else(|| section.name.to_owned(), |name| format!("{}.{name}", section.name));
    if let Some(name) = name {
        settings.mention(section.name, name);
    }
    for (key, value) in content {
        let path = format!("{place}.{key}");
        let Some(kind) = section.kind(key) else {
            let valid = paths(&place, section);
            let meant = nearest(&path, valid.iter().map(String::as_str)).unwrap_or_default();
            return Err(Failure::Usage(format!("unknown key `{path}` in {file}; did you mean `{meant}`?")));
        };
        let value =
            kind.read_toml(value).map_err(|why| Failure::Usage(format!("`{path}` in {file} can't be used: {why}")))?;
        settings
            .set(section.name, name, key, value)
            .map_err(|why| Failure::Usage(format!("`{path}` in {file} can't be used: {why}")))?;
    }
    Ok(())
}

/// Returns the keys of the current section first, then all others: of two equally close keys the first is taken.
fn paths(place: &str, own: &Section) -> Vec<String> {
    let here = own.keys.iter().map(|(key, _)| format!("{place}.{key}"));
    let elsewhere = SECTIONS
        .iter()
        .filter(|section| section.name != own.name)
        .flat_map(|section| section.keys.iter().map(move |(key, _)| dotted(section, key)));
    here.chain(elsewhere).collect()
}

fn dotted(section: &Section, key: &str) -> String {
    format!("{}{}.{key}", section.name, if section.named { ".NAME" } else { "" })
}

/// Reads `DATABASE_URL`, `AMQP_URL` and every variable that begins with `JOBWRIGHT_`. An empty variable is refused: most often something that
/// should have been inserted there is missing, and the default in its place would be another database, or no encryption.
pub(super) fn apply_environment(
    settings: &mut Settings,
    variables: impl IntoIterator<Item = (std::ffi::OsString, std::ffi::OsString)>,
) -> Result<(), Failure> {
    let mut ours = Vec::new();
    let (mut database_url, mut amqp_url) = (None, None);
    for (name, value) in variables {
        let Some(name) = name.to_str().map(str::to_owned) else { continue };
        let known = name == "DATABASE_URL" || name == "AMQP_URL" || name.starts_with(PREFIX);
        if !known {
            continue;
        }
        let value =
            value.into_string().map_err(|_| Failure::Usage(format!("the variable {name} is not valid UTF-8")))?;
        match name.as_str() {
            "DATABASE_URL" => database_url = Some(value),
            "AMQP_URL" => amqp_url = Some(value),
            _ => ours.push((name, value)),
        }
    }
    for (name, value) in [("DATABASE_URL", &database_url), ("AMQP_URL", &amqp_url)] {
        value.as_ref().map_or(Ok(()), |value| refuse_empty(name, value))?;
    }
    // The general variables first, so that jobwright's own take precedence.
    settings.set_urls(database_url, amqp_url);
    ours.sort_unstable();
    for (name, value) in ours {
        apply_variable(settings, &name, &value)?;
    }
    Ok(())
}

fn apply_variable(settings: &mut Settings, variable: &str, value: &str) -> Result<(), Failure> {
    let rest = &variable[PREFIX.len()..];
    match variable {
        WITHHELD => settings.urls_withheld = true,
        KEYS_WITHHELD => settings.keys_withheld = true,
        HOOKS_WITHHELD => settings.hooks_withheld = true,
        _ => {}
    }
    if FOR_HANDLERS.contains(&rest) || rest.starts_with("HEADER_") {
        return Ok(());
    }
    let found = SECTIONS.iter().find_map(|section| {
        let rest = rest.strip_prefix(&shout(section.name))?.strip_prefix('_')?;
        section.keys.iter().find_map(|(key, kind)| {
            let name = rest.strip_suffix(&shout(key))?;
            match (section.named, name.strip_suffix('_')) {
                (true, Some(own)) if !own.is_empty() => {
                    Some((section, Some(settings.named(section.name, own)), *key, *kind))
                }
                (false, None) if name.is_empty() => Some((section, None, *key, *kind)),
                _ => None,
            }
        })
    });
    let Some((section, name, key, kind)) = found else {
        if is_of_kubernetes(rest) {
            return Ok(());
        }
        let valid: Vec<String> = SECTIONS
            .iter()
            .flat_map(|section| {
                section.keys.iter().map(move |(key, _)| format!("{PREFIX}{}", shout(&dotted(section, key))))
            })
            .collect();
        let meant = nearest(variable, valid.iter().map(String::as_str)).unwrap_or_default();
        return Err(Failure::Usage(format!("unknown variable {variable} in the environment; did you mean {meant}?")));
    };
    refuse_empty(variable, value)?;
    kind.read_text(value)
        .and_then(|value| settings.set(section.name, name.as_deref(), key, value))
        .map_err(|why| Failure::Usage(format!("the variable {variable} can't be used: {why}")))
}

fn refuse_empty(variable: &str, value: &str) -> Result<(), Failure> {
    if value.trim().is_empty() {
        let text = format!("the variable {variable} is set but empty: give it a value, or unset it");
        return Err(Failure::Usage(text));
    }
    Ok(())
}
