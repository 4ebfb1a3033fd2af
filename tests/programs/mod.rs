//! What somebody can write who has read README.md, docs/guide.md and docs/architecture.md, and nothing else. If one of these has to change, users'
//! programs have to change too.

mod command;
mod kit;
mod message_service;
mod service;

/// A directory for a database, which is removed when this is dropped.
struct Directory(std::path::PathBuf);

impl Directory {
    fn new() -> std::io::Result<Self> {
        let path = std::env::temp_dir().join(format!("jobwright_program_{}", jobwright::JobId::new()));
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }

    /// Returns the URL of a database in it.
    fn url(&self) -> String {
        format!("sqlite:{}", self.0.join("app.db").display())
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
