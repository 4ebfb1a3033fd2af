//! PgBouncer in a mode that can't be used.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use jobwright::Store as _;
use jobwright::{ErrorKind, MessageServices, Postgres};

use crate::support::ports::free_port;
use crate::support::postgres::Pg;
use crate::support::private_pg::user_of_servers;
use crate::support::{TestDb, unique};

/// A PgBouncer that pools statements; it ends with this value.
struct Pooler {
    dir: std::path::PathBuf,
    port: u16,
    child: std::process::Child,
}

impl Pooler {
    async fn before(server: &str) -> Self {
        let dir = std::env::temp_dir().join(unique("jobwright_bouncer_"));
        std::fs::create_dir(&dir).unwrap();
        let port = free_port();
        let (host, server_port) = server.rsplit_once(':').unwrap();
        let settings = format!(
            "[databases]\n* = host={host} port={server_port} user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = statement\n\
             ignore_startup_parameters = extra_float_digits\n"
        );
        let file = dir.join("pgbouncer.ini");
        std::fs::write(&file, settings).unwrap();
        let mut command = Command::new("pgbouncer");
        command.arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if let Some((uid, gid)) = user_of_servers() {
            command.uid(uid).gid(gid);
        }
        let child = command.spawn().expect("this test needs the program `pgbouncer`");
        let pooler = Self { dir, port, child };
        let end = Instant::now() + Duration::from_secs(20);
        while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            assert!(Instant::now() < end, "pgbouncer does not listen");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        pooler
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statement_pooling_is_refused_with_a_remedy() {
    let Some(db) = Pg::<false>::create().await else { return };
    let pooler = Pooler::before(&db.address()).await;
    let config = |pgbouncer| {
        db.config().with_url(format!("postgres://postgres@127.0.0.1:{}/postgres", pooler.port)).pgbouncer(pgbouncer)
    };
    // With the check it is found at once.
    let error = MessageServices::postgres(&config(true)).await.map(drop).unwrap_err();
    explained(&error);
    // Without it, the first call that needs a transaction finds it.
    let direct = Postgres::connect(&config(false).schema(unique("t_"))).await;
    let error = match direct {
        Ok(store) => store.engine().migrate().await.map(drop).unwrap_err(),
        Err(error) => error,
    };
    explained(&error);
}

fn explained(error: &jobwright::Error) {
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(!error.is_retryable());
    for part in ["pools statements", "`pool_mode`", "`transaction`", "`session`"] {
        assert!(error.to_string().contains(part), "{error} does not say {part}");
    }
}
