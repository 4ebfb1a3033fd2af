//! Certificates for a single test, made with openssl.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::unique;

/// A certificate authority and the certificates it has signed. Dropping it removes all of them.
#[derive(Debug)]
pub(crate) struct Authority {
    dir: PathBuf,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let dir = std::env::temp_dir().join(unique("jobwright_ca_"));
        std::fs::create_dir(&dir).unwrap();
        let authority = Self { dir };
        authority.openssl("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=test -keyout ca.key -out ca.pem");
        authority
    }

    /// Signs a certificate for this host name, which is also a user name, and writes `NAME.pem` and `NAME.key`.
    pub(crate) fn sign(&self, name: &str, alternative: &str) {
        std::fs::write(self.dir.join("ext"), format!("subjectAltName={alternative}\nbasicConstraints=CA:FALSE\n"))
            .unwrap();
        self.openssl(&format!(
            "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN={name} -keyout {name}.key -out {name}.csr"
        ));
        self.openssl(&format!(
            "x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile ext -out {name}.pem"
        ));
    }

    pub(crate) fn path(&self, file: &str) -> String {
        self.dir.join(file).to_str().unwrap().to_owned()
    }

    pub(crate) fn text(&self, file: &str) -> String {
        std::fs::read_to_string(self.dir.join(file)).unwrap()
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    fn openssl(&self, arguments: &str) {
        let mut command = Command::new("openssl");
        command.args(arguments.split(' ')).current_dir(&self.dir).stdin(Stdio::null());
        let output = command.output().expect("this test needs `openssl`: install the package `openssl`");
        assert!(output.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}
