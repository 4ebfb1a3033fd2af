//! What this library logged, for tests of which each is a process of its own.

use std::io;
use std::sync::{Arc, Mutex};

use tracing_subscriber::fmt::MakeWriter;

#[derive(Clone, Default)]
pub(crate) struct Logs(Arc<Mutex<Vec<u8>>>);

impl Logs {
    /// From now on, from all threads.
    pub(crate) fn capture() -> Self {
        let logs = Self::default();
        tracing_subscriber::fmt().with_env_filter("jobwright=debug").with_ansi(false).with_writer(logs.clone()).init();
        logs
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }

    /// Levels and texts of the lines that say how the broker stands.
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
