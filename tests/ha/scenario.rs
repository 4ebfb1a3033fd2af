//! The setting of a scenario: servers, the ways that lead to them, and the captured log.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jobwright::{DatabaseConfig, MessageServices};
use tracing_subscriber::EnvFilter;

use crate::ha::cluster::Node;
use crate::ha::server_processes::Rig;
use crate::support::proxy::Proxy;

/// Deadlines of the clients: short, because their cost is part of the measurement.
pub(crate) const CALL: Duration = Duration::from_secs(5);
const CONNECT: Duration = Duration::from_secs(4);

/// The deadline of a whole scenario: less than `cargo xtask ha` gives it.
const DEADLINE: Duration = Duration::from_secs(9 * 60);

/// How clients find the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Find {
    /// Each client has a balancer, which is directed to the new primary and cuts connections to the old one.
    Balancer,
    /// All hosts are in the URL, with `target_session_attrs=read-write`.
    Hosts,
}

pub(crate) struct Stage {
    pub(crate) rig: Arc<Rig>,
    find: Find,
    ways: Mutex<Vec<Arc<Proxy>>>,
    log: PathBuf,
}

/// The way from one client to the servers.
pub(crate) struct Way {
    proxy: Option<Arc<Proxy>>,
    pub(crate) config: DatabaseConfig,
}

impl Way {
    /// Directs new connections to these servers in turn, and ends the others.
    pub(crate) fn turn(&self, nodes: &[&Node]) {
        let addresses: Vec<String> = nodes.iter().map(|node| node.address()).collect();
        if let Some(proxy) = &self.proxy {
            proxy.point_at(&addresses);
            proxy.cut();
        }
    }
}

impl Stage {
    pub(crate) fn open(title: &str) -> Self {
        end_after(DEADLINE);
        let hosts = std::env::var("JOBWRIGHT_HA_FIND").is_ok_and(|find| find == "hosts");
        let find = if hosts { Find::Hosts } else { Find::Balancer };
        Self { rig: Arc::new(Rig::new()), find, ways: Mutex::default(), log: log_to(title) }
    }

    /// Whether clients connect directly, so that they reach whatever server accepts writes.
    pub(crate) fn is_open(&self) -> bool {
        self.find == Find::Hosts
    }

    /// Creates a server with the schema and the tables of the account.
    pub(crate) async fn primary(&self) -> Node {
        let node = Node::create(&self.rig, "a");
        self.prepare(&node).await;
        node
    }

    /// Creates the schema and the tables of the account on a server.
    pub(crate) async fn prepare(&self, node: &Node) {
        let mut config = DatabaseConfig::default();
        config.url = self.url(&node.address()).into_secret();
        MessageServices::postgres(&config).await.unwrap().migrate().await.unwrap();
        let books = "create table sent (id uuid primary key, bare bool not null);
                     create table done (id uuid not null, run int not null);
                     create index on done (id)";
        node.client().await.batch_execute(books).await.unwrap();
    }

    fn url(&self, hosts: &str) -> Url {
        let certificate = self.rig.text("cert.pem");
        Url(format!("postgres://postgres@{hosts}/postgres?sslmode=verify-full&sslrootcert={certificate}"))
    }

    /// Creates a way for one client. The servers are all present and future ones; the first is the primary.
    pub(crate) async fn way(&self, nodes: &[&Node]) -> Way {
        let proxy = Arc::new(Proxy::start(nodes[0].address()).await);
        self.ways.lock().unwrap().push(proxy.clone());
        let url = match self.find {
            Find::Balancer => self.url(&proxy.address.to_string()),
            Find::Hosts => {
                let hosts: Vec<String> = nodes.iter().map(|node| node.address()).collect();
                Url(format!("{}&target_session_attrs=read-write", self.url(&hosts.join(",")).0))
            }
        };
        Way { proxy: Some(proxy), config: config(url) }
    }

    /// Creates a way for one client, to a balancer that others run.
    pub(crate) fn straight(&self, address: &str) -> Way {
        Way { proxy: None, config: config(self.url(address)) }
    }

    /// Directs the balancers of all clients to this server. New connections go there; the others are cut, or left open without the client noticing.
    pub(crate) fn turn(&self, node: &Node, cut: bool) {
        for way in self.ways.lock().unwrap().iter() {
            way.point_at(&[node.address()]);
            if cut {
                way.cut();
            }
        }
    }

    /// Returns how many lines of the log contain this.
    pub(crate) fn logged(&self, text: &str) -> usize {
        std::fs::read_to_string(&self.log).unwrap_or_default().lines().filter(|line| line.contains(text)).count()
    }
}

/// A URL with nothing secret in it.
struct Url(String);

impl Url {
    fn into_secret(self) -> jobwright::Secret {
        jobwright::Secret::new(self.0)
    }
}

fn config(url: Url) -> DatabaseConfig {
    let mut config = DatabaseConfig::default().max_connections(6).call_timeout(CALL).connect_timeout(CONNECT);
    config.url = url.into_secret();
    config
}

/// The parent of a hanging process may be gone. When this process ends, so do its servers.
fn end_after(deadline: Duration) {
    std::thread::spawn(move || {
        std::thread::sleep(deadline);
        eprintln!("the scenario had not ended after {deadline:?}");
        std::process::exit(101);
    });
}

/// Logs to `target/ha/TITLE.log`, and returns that path.
fn log_to(title: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/ha");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(format!("{}.log", title.replace([' ', ','], "-")));
    let file = std::fs::File::create(&path).unwrap();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    // xtask runs one scenario per process; several in one process share the first one's file.
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(Mutex::new(file)).try_init();
    path
}
