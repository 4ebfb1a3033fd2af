//! PostgreSQL servers that replicate each other, with TLS.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_postgres::{Client, NoTls};

use crate::ha::server_processes::{Rig, processes_in, signal};
use crate::support::ports::free_port;
use crate::support::private_pg::programs;

/// The longest that any step of a server may take on a busy machine.
const STEP: Duration = Duration::from_secs(90);

/// A server, which ends with its rig.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    rig: Arc<Rig>,
    name: String,
    port: u16,
}

impl Node {
    /// Creates and starts an empty server.
    pub(crate) fn create(rig: &Arc<Rig>, name: &str) -> Self {
        make_certificate(rig);
        let node = Self { rig: rig.clone(), name: name.to_owned(), port: free_port() };
        let initdb = ["-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C", "-D"];
        rig.run(rig.command(programs().join("initdb")).args(initdb).arg(node.data()), STEP);
        let (hba, conf) = (format!("{name}/pg_hba.conf"), format!("{name}/postgresql.conf"));
        rig.file(
            &hba,
            "local all all trust\nlocal replication all trust\nhostssl all all 127.0.0.1/32 trust\n\
             hostssl replication all 127.0.0.1/32 trust\n",
        );
        let usual = std::fs::read_to_string(rig.path(&conf)).unwrap();
        // The kernel's data outlives the processes that are killed here, so fsync would only cost time.
        let more = format!(
            "listen_addresses = '127.0.0.1'\nunix_socket_directories = '{folder}'\nfsync = off\nmax_connections = 100\n\
             dynamic_shared_memory_type = mmap\nwal_keep_size = '512MB'\nssl = on\nssl_cert_file = '{folder}/cert.pem'\n\
             ssl_key_file = '{folder}/key.pem'\nlog_line_prefix = '%m [%p] %a '\n",
            folder = rig.home()
        );
        rig.file(&conf, &format!("{usual}\n{more}"));
        node.start();
        node
    }

    /// Refers to a server that others start and stop.
    pub(crate) fn of_others(rig: &Arc<Rig>, name: &str, port: u16) -> Self {
        Self { rig: rig.clone(), name: name.to_owned(), port }
    }

    /// Makes a copy of this server in its present state, which does not run.
    pub(crate) fn backup(&self, name: &str) -> Self {
        let copy = Self { name: name.to_owned(), port: free_port(), ..self.clone() };
        self.base_backup(&copy, &[]);
        copy
    }

    /// Starts a standby that follows this server.
    pub(crate) fn standby(&self, name: &str) -> Self {
        let copy = Self { name: name.to_owned(), port: free_port(), ..self.clone() };
        self.base_backup(&copy, &["-R"]);
        copy.start();
        copy
    }

    fn base_backup(&self, copy: &Self, more: &[&str]) {
        let mut command = self.rig.command(programs().join("pg_basebackup"));
        // Without `fast` it waits for the next checkpoint, which may be minutes away.
        command.args(["-c", "fast", "-X", "stream", "--no-sync", "-d"]).arg(self.local()).args(more);
        self.rig.run(command.arg("-D").arg(copy.data()), STEP);
    }

    /// Returns the connection string for the user that runs the servers.
    fn local(&self) -> String {
        format!("host={} port={} user=postgres dbname=postgres", self.rig.home(), self.port)
    }

    fn data(&self) -> PathBuf {
        self.rig.path(&self.name)
    }

    /// `host:port`.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Starts it and waits until it answers.
    pub(crate) fn start(&self) {
        let log = self.rig.text(&format!("{}.log", self.name));
        let options = format!("-p {}", self.port);
        let mut command = self.rig.command(programs().join("pg_ctl"));
        command.arg("-D").arg(self.data()).args(["-w", "-t", "80", "-l", &log, "-o", &options, "start"]);
        if let Err(said) = self.rig.try_run(&mut command, STEP) {
            panic!("{said}\n{}", std::fs::read_to_string(log).unwrap_or_default());
        }
    }

    /// Stops it cleanly: its commits have reached its standby when this returns.
    pub(crate) fn stop(&self) {
        let mut command = self.rig.command(programs().join("pg_ctl"));
        self.rig.run(command.arg("-D").arg(self.data()).args(["-w", "-t", "80", "-m", "fast", "stop"]), STEP);
    }

    /// Promotes a standby, and waits until it accepts writes.
    pub(crate) fn promote(&self) {
        let mut command = self.rig.command(programs().join("pg_ctl"));
        self.rig.run(command.arg("-D").arg(self.data()).args(["-w", "-t", "80", "promote"]), STEP);
    }

    /// Makes a cleanly stopped server follow another one.
    pub(crate) fn follow(&self, primary: &Self) {
        self.rig.file(&format!("{}/standby.signal", self.name), "");
        let conf = format!("{}/postgresql.auto.conf", self.name);
        let usual = std::fs::read_to_string(self.rig.path(&conf)).unwrap();
        let local = primary.local();
        let more = format!("primary_conninfo = '{local}'\nsynchronous_standby_names = ''\n");
        self.rig.file(&conf, &format!("{usual}\n{more}"));
    }

    /// Kills all its processes at once: none runs on that could see another one end.
    pub(crate) fn kill(&self) {
        self.freeze();
        let end = Instant::now() + STEP;
        loop {
            let pids = processes_in(&self.data());
            if pids.is_empty() {
                break self.forget_process();
            }
            signal("KILL", &pids);
            assert!(Instant::now() < end, "{pids:?} do not end");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Removes the PID file, as a restart of the machine would. A zombie process keeps its PID, and PostgreSQL would take it for one that runs.
    fn forget_process(&self) {
        let file = self.data().join("postmaster.pid");
        let Ok(text) = std::fs::read_to_string(&file) else { return };
        if let Some(memory) = text.lines().nth(6).and_then(|line| line.split_whitespace().last()) {
            let _ = self.rig.try_run(self.rig.command("ipcrm").args(["-m", memory]), STEP);
        }
        let socket = format!(".s.PGSQL.{}", self.port);
        for left in [file, self.rig.path(&socket), self.rig.path(&format!("{socket}.lock"))] {
            let _ = std::fs::remove_file(left);
        }
    }

    /// Freezes it: its connections stay open, and new ones are accepted by the kernel and get no answer.
    pub(crate) fn freeze(&self) {
        // Twice: a process may just have been forked.
        signal("STOP", &processes_in(&self.data()));
        signal("STOP", &processes_in(&self.data()));
    }

    pub(crate) fn thaw(&self) {
        signal("CONT", &processes_in(&self.data()));
    }

    /// Stops its WAL senders: later commits reach no standby.
    pub(crate) async fn freeze_senders(&self) {
        let rows = self.client().await.query("select pid from pg_stat_replication", &[]).await.unwrap();
        let pids: Vec<u32> = rows.iter().map(|row| row.get::<_, i32>(0).unsigned_abs()).collect();
        assert!(!pids.is_empty(), "nobody follows {}", self.name);
        signal("STOP", &pids);
    }

    /// Opens a direct connection.
    pub(crate) async fn client(&self) -> Client {
        let local = self.local();
        let connecting = tokio_postgres::connect(&local, NoTls);
        let (client, connection) = tokio::time::timeout(Duration::from_secs(20), connecting).await.unwrap().unwrap();
        tokio::spawn(connection);
        client.batch_execute("set statement_timeout = '30s'").await.unwrap();
        client
    }

    /// Makes every commit wait for the standby from now on.
    pub(crate) async fn wait_for_standby(&self, how: &str) {
        let client = self.client().await;
        for setting in ["synchronous_standby_names = '*'", &format!("synchronous_commit = '{how}'")] {
            client.batch_execute(&format!("alter system set {setting}")).await.unwrap();
        }
        client.batch_execute("select pg_reload_conf()").await.unwrap();
        let sync = "select exists (select from pg_stat_replication where sync_state in ('sync', 'quorum'))";
        crate::support::eventually(STEP, async || client.query_one(sync, &[]).await.unwrap().get(0)).await;
    }

    /// Waits until a standby has all that this server has now.
    pub(crate) async fn caught_up(&self) {
        let client = self.client().await;
        let here: String = client.query_one("select pg_current_wal_lsn()::text", &[]).await.unwrap().get(0);
        let all = "select coalesce(bool_and(replay_lsn >= $1::text::pg_lsn), false) from pg_stat_replication";
        crate::support::eventually(STEP, async || client.query_one(all, &[&here]).await.unwrap().get(0)).await;
    }
}

/// Creates one certificate for all servers of the rig, which clients trust.
pub(crate) fn make_certificate(rig: &Rig) {
    if rig.path("cert.pem").exists() {
        return;
    }
    let about = "[req]\nprompt = no\ndistinguished_name = name\nx509_extensions = usage\n[name]\nCN = localhost\n\
                 [usage]\nbasicConstraints = critical, CA:FALSE\nsubjectAltName = IP:127.0.0.1, DNS:localhost\n";
    let about = rig.file("certificate.cnf", about);
    let mut command = rig.command("openssl");
    command.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "3", "-config"]).arg(about);
    command.arg("-keyout").arg(rig.path("key.pem")).arg("-out").arg(rig.path("cert.pem"));
    rig.run(&mut command, STEP);
}
