//! What the library logged, for tests that each run in their own process.

use std::io;
use std::sync::{Arc, Mutex, OnceLock};

use tracing_subscriber::fmt::MakeWriter;

#[derive(Clone, Default)]
pub(crate) struct Logs(Arc<Mutex<Vec<u8>>>);

impl Logs {
    /// Captures logs of all threads from now on. Tests that share a process would share its logs.
    pub(crate) fn capture() -> Self {
        static LOGS: OnceLock<Logs> = OnceLock::new();
        let start = || {
            let logs = Self::default();
            let filter = "jobwright=debug,warn,lapin=off";
            tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(logs.clone()).init();
            logs
        };
        LOGS.get_or_init(start).clone()
    }

    /// Returns the lines of a level that name this server.
    pub(crate) fn about(&self, server: &str, level: &str) -> Vec<String> {
        let of_it = |line: &&str| line.contains(server) && line.contains(&format!(" {level} "));
        self.text().lines().filter(of_it).map(str::to_owned).collect()
    }

    /// Returns warnings of the pool or the driver, which do not name the server.
    pub(crate) fn bare(&self) -> Vec<String> {
        let theirs = |line: &&str| {
            line.contains(" WARN ") && [" deadpool", " tokio_postgres"].iter().any(|target| line.contains(target))
        };
        self.text().lines().filter(theirs).map(str::to_owned).collect()
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }

    /// Returns level and text of the lines that report changes in the broker's state.
    pub(crate) fn changes(&self) -> Vec<&'static str> {
        let text = self.text();
        let line = |line: &str| match () {
            () if line.contains(" WARN ") && line.contains(" is down ") => Some("down"),
            () if line.contains(" WARN ") && line.contains("takes no messages") => Some("blocked"),
            () if line.contains(" INFO ") && line.contains(" is up") => Some("up"),
            () if line.contains(" WARN ") || line.contains(" ERROR ") => Some("other"),
            () => None,
        };
        text.lines().filter_map(line).collect()
    }

    pub(crate) fn contains(&self, text: &str) -> bool {
        self.text().contains(text)
    }
}

impl io::Write for Logs {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Logs {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
