//! The rights that a role needs for a purpose. `jobwright grants` prints or applies them, `jobwright doctor --as` looks whether a role has them, and
//! a test runs every statement of the engine with them.

use clap::ValueEnum;

/// What a role is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Purpose {
    /// Sends jobs.
    Sender,
    /// Runs jobs, and may send them.
    Executor,
    /// Looks, and changes jobs, rules and schedules.
    Operator,
    /// Looks, and changes nothing.
    Monitor,
    /// Takes jobs of some queues by SQL, and ends them.
    Worker,
}

/// The start of a line that is written once for each queue of a worker.
const FOR_EACH_QUEUE: &str = "--{queue} ";

/// Rights that only some roles of a purpose need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Extra {
    /// A sender: unique jobs.
    Unique,
    /// A sender: cancelling jobs by SQL.
    Cancel,
    /// An executor: queues of external workers.
    External,
    /// An executor: forgetting old dead letters and entries of the audit.
    Retention,
    /// An executor: putting and deleting schedules.
    Schedules,
}

impl Purpose {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sender => "sender",
            Self::Executor => "executor",
            Self::Operator => "operator",
            Self::Monitor => "monitor",
            Self::Worker => "worker",
        }
    }

    fn files(self) -> &'static [&'static str] {
        match self {
            Self::Sender => &[include_str!("sender.sql")],
            Self::Executor => &[include_str!("executor.sql")],
            Self::Operator => &[include_str!("monitor.sql"), include_str!("operator.sql")],
            Self::Monitor => &[include_str!("monitor.sql")],
            Self::Worker => &[include_str!("worker.sql")],
        }
    }

    /// Returns whether a role of this purpose may see what the doctor looks at.
    pub(crate) fn looks(self) -> bool {
        matches!(self, Self::Operator | Self::Monitor)
    }

    /// Returns the statements, for a schema and a role that are quoted here. The queues are those of a worker.
    pub(crate) fn statements(self, extras: &[Extra], queues: &[String], schema: &str, role: &str) -> String {
        let mut all = self.lines(extras).fold(String::new(), |all, line| all + line + "\n");
        let lines = self.files().iter().flat_map(|file| file.lines());
        for line in lines.filter_map(|line| line.strip_prefix(FOR_EACH_QUEUE)) {
            for queue in queues {
                all += &line.replace("{queue_text}", &literal(queue));
                all.push('\n');
            }
        }
        all.replace("{schema}", &quoted(schema))
            .replace("{role}", &quoted(role))
            .replace("{role_text}", &literal(&quoted(role)))
    }

    /// Returns the rights one by one.
    pub(crate) fn rights(self, extras: &[Extra]) -> Vec<Right> {
        self.lines(extras).filter_map(|line| line.strip_prefix("grant ")).flat_map(read).collect()
    }

    /// Returns the lines of its files, of those for extras only what is asked for.
    fn lines(self, extras: &[Extra]) -> impl Iterator<Item = &'static str> {
        self.files().iter().flat_map(|file| file.lines()).filter_map(|line| {
            let Some((extra, grant)) = line.strip_prefix("--{").and_then(|line| line.split_once("} ")) else {
                return Some(line);
            };
            extras.iter().any(|asked| asked.name() == extra).then_some(grant)
        })
    }
}

impl Extra {
    fn name(self) -> &'static str {
        match self {
            Self::Unique => "unique",
            Self::Cancel => "cancel",
            Self::External => "external",
            Self::Retention => "retention",
            Self::Schedules => "schedules",
        }
    }
}

/// One right on one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Right {
    /// `table`, `sequence`, `function` or `schema`.
    pub(crate) kind: &'static str,
    /// Its name in the schema.
    pub(crate) object: String,
    pub(crate) privilege: String,
    /// The only column that it is about.
    pub(crate) column: Option<String>,
}

/// Reads what follows `grant` in a line of the files.
fn read(grant: &str) -> Vec<Right> {
    let Some((privileges, objects)) = grant.split_once(" on ") else { return Vec::new() };
    let objects = objects.split(" to ").next().unwrap_or_default();
    let (kind, objects) = ["schema", "sequence", "function"]
        .into_iter()
        .find_map(|kind| Some((kind, objects.strip_prefix(kind)?.strip_prefix(' ')?)))
        .unwrap_or(("table", objects));
    let mut rights = Vec::new();
    for object in objects.split(", ").map(|object| object.trim_start_matches("{schema}.")) {
        for (privilege, columns) in privileges_of(privileges) {
            for column in columns {
                rights.push(Right { kind, object: object.to_owned(), privilege: privilege.clone(), column });
            }
        }
    }
    rights
}

/// Splits `select (a, b), insert` into privileges and their columns.
fn privileges_of(text: &str) -> Vec<(String, Vec<Option<String>>)> {
    let mut all = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find([',', '(']).unwrap_or(rest.len());
        let privilege = rest[..end].trim().to_owned();
        let mut columns = vec![None];
        rest = &rest[end..];
        if let Some((inside, after)) = rest.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
            columns = inside.split(", ").map(|column| Some(column.to_owned())).collect();
            rest = after;
        }
        rest = rest.trim_start_matches([',', ' ']);
        all.push((privilege, columns));
    }
    all
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Returns a text as SQL reads it, whatever `standard_conforming_strings` is.
fn literal(text: &str) -> String {
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_grant_is_read_right_by_right() {
        let right = |kind, object: &str, privilege: &str, column: Option<&str>| Right {
            kind,
            object: object.to_owned(),
            privilege: privilege.to_owned(),
            column: column.map(str::to_owned),
        };
        assert_eq!(
            read("select (id, at), delete on {schema}.audit, {schema}.job to {role};"),
            [
                right("table", "audit", "select", Some("id")),
                right("table", "audit", "select", Some("at")),
                right("table", "audit", "delete", None),
                right("table", "job", "select", Some("id")),
                right("table", "job", "select", Some("at")),
                right("table", "job", "delete", None),
            ]
        );
        assert_eq!(read("usage on schema {schema} to {role};"), [right("schema", "{schema}", "usage", None)]);
        assert_eq!(read("execute on function {schema}.send to {role};"), [right("function", "send", "execute", None)]);
    }

    #[test]
    fn names_are_quoted_and_extras_are_left_out() {
        let plain = Purpose::Executor.statements(&[], &[], "jobs", "the \"app\"");
        assert!(plain.contains("on schema \"jobs\" to \"the \"\"app\"\"\";"), "{plain}");
        assert!(!plain.contains("report_key") && !plain.contains('{'), "{plain}");
        let more = Purpose::Executor.statements(&[Extra::External], &[], "jobs", "app");
        assert!(more.contains("grant select on \"jobs\".report_key to \"app\";"), "{more}");
    }

    #[test]
    fn a_worker_has_a_row_for_each_queue() {
        let queues = ["mail".to_owned(), "o'clock\\".to_owned()];
        let all = Purpose::Worker.statements(&[], &queues, "jobs", "the 'app'");
        let rows: Vec<&str> = all.lines().filter_map(|line| line.strip_prefix("insert into ")).collect();
        let row = |queue| {
            format!(
                "\"jobs\".worker_queue (role_name, queue) values (E'\"the ''app''\"'::regrole, {queue}) on conflict do nothing;"
            )
        };
        assert_eq!(rows, [row("E'mail'"), row("E'o''clock\\\\'")]);
        assert!(!Purpose::Worker.rights(&[]).is_empty() && !all.contains('{'), "{all}");
    }
}
