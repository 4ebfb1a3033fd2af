//! The same load behind Patroni, etcd and `HAProxy`: they choose the primary, and clients know one address.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::process::Child;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::ha::accounting::{Account, back};
use crate::ha::cluster::{Node, make_certificate};
use crate::ha::load::Load;
use crate::ha::postgres::some;
use crate::ha::scenario::Stage;
use crate::ha::server_processes::Rig;
use crate::support::ports::free_port;
use crate::support::private_pg::programs;

/// A first start creates a database and a copy of it, on a busy machine.
const START: Duration = Duration::from_secs(150);
/// Seconds after which a silent leader loses its role, and between two checks of each.
const TTL: u64 = 20;
const LOOP: u64 = 5;

/// Everything ends with the rig.
struct Site {
    rig: Arc<Rig>,
    etcd: u16,
    balancer: u16,
    members: Vec<Member>,
}

struct Member {
    server: Node,
    port: u16,
    rest: u16,
    patroni: Option<Child>,
}

impl Site {
    fn start(rig: &Arc<Rig>) -> Self {
        make_certificate(rig);
        let member = |n| {
            let port = free_port();
            let server = Node::of_others(rig, &format!("p{n}"), port);
            Member { server, port, rest: free_port(), patroni: None }
        };
        let mut site =
            Self { rig: rig.clone(), etcd: free_port(), balancer: free_port(), members: (0..2).map(member).collect() };
        site.start_etcd();
        for n in 0..2 {
            site.start_patroni(n);
            site.until(START, "it has joined", |site| site.is(n, "primary") || site.is(n, "replica"));
        }
        site.start_balancer();
        site
    }

    fn start_etcd(&self) {
        let (client, peer) = (format!("http://127.0.0.1:{}", self.etcd), format!("http://127.0.0.1:{}", free_port()));
        let mut command = self.rig.command("etcd");
        command.args(["--name", "e", "--data-dir", &self.rig.text("etcd"), "--unsafe-no-fsync"]);
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &format!("e={peer}")]);
        // The rig ends it.
        let _ = self.rig.spawn(&mut command, "etcd.log").id();
        let port = self.etcd;
        self.until(START, "etcd answers", |_| ask(port, "/health").is_some_and(|said| said.contains("true")));
    }

    fn start_patroni(&mut self, n: usize) {
        let Member { port, rest, .. } = self.members[n];
        let (home, etcd, bin) = (self.rig.home(), self.etcd, programs());
        let bin = bin.display();
        let text = format!(
            "scope: ha\nname: p{n}\n\
             restapi: {{listen: '127.0.0.1:{rest}', connect_address: '127.0.0.1:{rest}'}}\n\
             etcd3: {{hosts: '127.0.0.1:{etcd}'}}\n\
             bootstrap:\n  dcs: {{ttl: {TTL}, loop_wait: {LOOP}, retry_timeout: 5, synchronous_mode: true,\n        \
             postgresql: {{use_pg_rewind: true, parameters: {{wal_log_hints: 'on', max_connections: 100}}}}}}\n  \
             initdb: [{{encoding: UTF8}}, {{locale: C}}]\n\
             postgresql:\n  listen: '127.0.0.1:{port}'\n  connect_address: '127.0.0.1:{port}'\n  data_dir: {home}/p{n}\n  \
             bin_dir: {bin}\n  pgpass: {home}/pgpass{n}\n  \
             authentication: {{superuser: {{username: postgres}}, replication: {{username: postgres}}}}\n  \
             pg_hba: ['local all all trust', 'local replication all trust', 'hostssl all all 127.0.0.1/32 trust',\n            \
             'hostssl replication all 127.0.0.1/32 trust']\n  \
             parameters: {{unix_socket_directories: {home}, fsync: 'off', dynamic_shared_memory_type: mmap, wal_keep_size: 512MB,\n               \
             ssl: 'on', ssl_cert_file: {home}/cert.pem, ssl_key_file: {home}/key.pem}}\n"
        );
        let file = self.rig.file(&format!("p{n}.yml"), &text);
        let mut command = self.rig.command("patroni");
        self.members[n].patroni = Some(self.rig.spawn(command.arg(file), &format!("p{n}.patroni")));
    }

    fn start_balancer(&self) {
        let mut text = format!(
            "global\n  maxconn 500\ndefaults\n  mode tcp\n  timeout connect 2s\n  timeout client 1h\n  timeout server 1h\n  \
             timeout check 2s\nlisten primary\n  bind 127.0.0.1:{}\n  option httpchk OPTIONS /primary\n  \
             http-check expect status 200\n  default-server inter 1s fall 2 rise 1 on-marked-down shutdown-sessions\n",
            self.balancer
        );
        for (n, Member { port, rest, .. }) in self.members.iter().enumerate() {
            writeln!(text, "  server p{n} 127.0.0.1:{port} check port {rest}").unwrap();
        }
        let file = self.rig.file("haproxy.cfg", &text);
        let _ = self.rig.spawn(self.rig.command("haproxy").args(["-db", "-f"]).arg(file), "haproxy.log").id();
    }

    /// Whether Patroni reports this of a member.
    fn is(&self, n: usize, what: &str) -> bool {
        ask(self.members[n].rest, &format!("/{what}")).is_some_and(|said| said.starts_with("HTTP/1.0 200"))
    }

    fn leader(&self) -> usize {
        self.until(START, "somebody leads", |site| (0..2).any(|n| site.is(n, "primary")));
        (0..2).find(|n| self.is(*n, "primary")).unwrap()
    }

    #[track_caller]
    fn until(&self, patience: Duration, what: &str, holds: impl Fn(&Self) -> bool) {
        let end = Instant::now() + patience;
        while !holds(self) {
            if Instant::now() > end {
                for log in ["etcd.log", "p0.patroni", "p1.patroni", "haproxy.log"] {
                    let said = std::fs::read_to_string(self.rig.path(log)).unwrap_or_default();
                    let last: Vec<&str> = said.lines().rev().take(15).collect();
                    println!("{log}:\n  {}", last.into_iter().rev().collect::<Vec<_>>().join("\n  "));
                }
                panic!("not after {patience:?}: {what}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Kills everything on a member's machine.
    fn kill(&mut self, n: usize) {
        if let Some(mut patroni) = self.members[n].patroni.take() {
            patroni.kill().unwrap();
            patroni.wait().unwrap();
        }
        self.members[n].server.kill();
    }
}

/// Makes one HTTP request and returns the whole answer.
fn ask(port: u16, path: &str) -> Option<String> {
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
    let mut stream = std::net::TcpStream::connect_timeout(&address, Duration::from_secs(2)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(3))).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").ok()?;
    let mut said = String::new();
    // A read past the deadline still leaves what was read.
    let _ = stream.read_to_string(&mut said);
    Some(said)
}

/// The leader's machine is lost, and comes back as a standby; then there is a clean switchover.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "starts a cluster: cargo xtask ha --patroni"]
async fn behind_patroni() {
    let title = "Patroni, synchronous, leader killed";
    let stage = Stage::open(title);
    let mut site = Site::start(&stage.rig);
    let leader = site.leader();
    let other = 1 - leader;
    site.until(START, "the standby is synchronous", |site| site.is(other, "sync"));
    stage.prepare(&site.members[leader].server).await;
    let address = format!("127.0.0.1:{}", site.balancer);
    let ways = [stage.straight(&address), stage.straight(&address), stage.straight(&address)];
    let mut load = Load::start_by(&ways).await;
    load.goes_on_for(some()).await;

    let fault = Instant::now();
    site.kill(leader);
    site.until(START, "the other one leads", |site| site.is(other, "primary"));
    let promoted = fault.elapsed();
    let killed = back(&load, &site.members[other].server, fault).await;
    load.goes_on_for(some()).await;

    site.start_patroni(leader);
    site.until(START, "the old leader follows", |site| site.is(leader, "sync"));
    load.goes_on_for(some()).await;
    let change = Instant::now();
    let mut command = stage.rig.command("patronictl");
    command.arg("-c").arg(stage.rig.path(&format!("p{other}.yml")));
    command.args(["switchover", "ha", "--candidate", &format!("p{leader}"), "--force"]);
    stage.rig.run(&mut command, START);
    site.until(START, "the old leader leads again", |site| site.is(leader, "primary"));
    load.goes_on_for(some()).await;
    let gap = load.longest_gap(change);

    let account = Account::settle(title, &mut load, &site.members[leader].server, false).await;
    load.stop_executors().await;
    let account = account.with(killed).telling(format!("led after {:.1} s", promoted.as_secs_f64()));
    account.telling(format!("switchover: no sends for {gap:.1} s")).close();
}
