//! Nodes of a RabbitMQ cluster are lost. Work never waits for them: the table holds the backlog, and the broker is used again when it is back.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jobwright::{BrokerConfig, MessageServices};

use crate::ha::accounting::{Account, back};
use crate::ha::load::Load;
use crate::ha::postgres::some;
use crate::ha::scenario::Stage;
use crate::ha::server_processes::Rig;
use crate::support::environment::PATIENCE;
use crate::support::ports::free_port;
use crate::support::proxy::Proxy;

/// Three nodes start at the same time, on a busy machine.
const START: Duration = Duration::from_secs(300);
const NODES: usize = 3;

struct Cluster {
    rig: Arc<Rig>,
    mapper: u16,
    nodes: Vec<Member>,
}

struct Member {
    name: String,
    port: u16,
    distribution: u16,
    child: Option<Child>,
}

impl Cluster {
    fn start(rig: &Arc<Rig>) -> Self {
        let mapper = free_port();
        let member = |n| Member { name: format!("n{n}"), port: free_port(), distribution: free_port(), child: None };
        let mut cluster = Self { rig: rig.clone(), mapper, nodes: (0..NODES).map(member).collect() };
        let cookie = rig.file(".erlang.cookie", "JOBWRIGHTHA");
        std::fs::set_permissions(cookie, std::fs::Permissions::from_mode(0o400)).unwrap();
        let mut others = String::new();
        for n in 0..NODES {
            writeln!(others, "cluster_formation.classic_config.nodes.{} = n{n}@localhost", n + 1).unwrap();
        }
        rig.file(
            "rabbitmq.conf",
            &format!(
                "cluster_formation.peer_discovery_backend = classic_config\n{others}cluster_partition_handling = pause_minority\n\
                 net_ticktime = 8\nvm_memory_high_watermark.relative = 0.8\ndisk_free_limit.absolute = 50MB\n"
            ),
        );
        rig.file("rabbitmq-env.conf", "");
        rig.file("enabled_plugins", "[].\n");
        // As a foreground child, so that it ends with the rest.
        let _ = rig
            .spawn(rig.command("epmd").args(["-address", "127.0.0.1", "-port", &mapper.to_string()]), "epmd.log")
            .id();
        (0..NODES).for_each(|n| cluster.spawn(n));
        (0..NODES).for_each(|n| cluster.started(n));
        cluster.all_here();
        cluster
    }

    fn all_here(&self) {
        self.ctl(0, &["await_online_nodes", &NODES.to_string(), "--timeout", "120"]);
    }

    fn spawn(&mut self, n: usize) {
        let mut command = self.command(n, "rabbitmq-server");
        self.nodes[n].child = Some(self.rig.spawn(&mut command, &format!("n{n}.console")));
    }

    fn started(&mut self, n: usize) {
        let end = Instant::now() + START;
        loop {
            let ended = self.nodes[n].child.as_mut().unwrap().try_wait().unwrap();
            if ended.is_some() || Instant::now() > end {
                let said = std::fs::read_to_string(self.rig.path(&format!("n{n}.console"))).unwrap_or_default();
                panic!("node {n} of RabbitMQ did not start:\n{said}");
            }
            let listens = std::net::TcpStream::connect(("127.0.0.1", self.nodes[n].port)).is_ok();
            if listens && self.try_ctl(n, &["await_startup", "--timeout", "20"]).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn ctl(&self, n: usize, arguments: &[&str]) -> String {
        self.try_ctl(n, arguments).unwrap_or_else(|said| panic!("{said}"))
    }

    fn try_ctl(&self, n: usize, arguments: &[&str]) -> Result<String, String> {
        self.rig.try_run(self.command(n, "rabbitmqctl").arg("-q").args(arguments), START)
    }

    /// Kills a node.
    fn kill(&mut self, n: usize) {
        if let Some(mut child) = self.nodes[n].child.take() {
            // The script and the Erlang VM under it are one process group, created for them.
            let group = format!("-{}", child.id());
            let _ = Command::new("kill").args(["-KILL", "--", &group]).status().unwrap();
            let _ = child.wait();
        }
    }

    fn back(&mut self, nodes: &[usize]) {
        for &n in nodes {
            self.spawn(n);
        }
        for &n in nodes {
            self.started(n);
        }
        self.all_here();
    }

    fn address(&self, n: usize) -> String {
        format!("127.0.0.1:{}", self.nodes[n].port)
    }

    fn command(&self, n: usize, program: &str) -> Command {
        let (rig, node) = (&self.rig, &self.nodes[n]);
        let script = PathBuf::from("/usr/lib/rabbitmq/bin").join(program);
        let mut command = rig.command(if script.is_file() { script } else { PathBuf::from(program) });
        command
            .env("HOME", rig.home()) // where Erlang keeps the cookie
            .env("RABBITMQ_NODENAME", format!("{}@localhost", node.name))
            .env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1")
            .env("RABBITMQ_NODE_PORT", node.port.to_string())
            .env("RABBITMQ_DIST_PORT", node.distribution.to_string())
            .env("RABBITMQ_MNESIA_BASE", rig.path(&format!("{}.data", node.name)))
            .env("RABBITMQ_LOG_BASE", rig.path(&format!("{}.logs", node.name)))
            .env("RABBITMQ_PID_FILE", rig.path(&format!("{}.pid", node.name)))
            .env("RABBITMQ_CONF_ENV_FILE", rig.path("rabbitmq-env.conf"))
            .env("RABBITMQ_CONFIG_FILE", rig.path("rabbitmq.conf"))
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", rig.path("enabled_plugins"))
            .env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "+S 1:1")
            .env("ERL_EPMD_ADDRESS", "127.0.0.1")
            .env("ERL_EPMD_PORT", self.mapper.to_string())
            .env("ERL_FLAGS", "-kernel inet_dist_use_interface {127,0,0,1}");
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Everything else started in the folder ends with the rig.
        (0..NODES).for_each(|n| self.kill(n));
    }
}

/// A producer and two executors, each with its own balancer in front of the broker.
struct Crew {
    load: Load,
    balancers: Vec<Proxy>,
    services: Vec<MessageServices>,
}

impl Crew {
    async fn start(stage: &Stage, server: &crate::ha::cluster::Node, cluster: &Cluster) -> Self {
        let (mut balancers, mut services) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let balancer = Proxy::start(cluster.address(0)).await;
            let broker = BrokerConfig::url(format!("amqp://guest:guest@{}/%2f", balancer.address))
                .heartbeat(Duration::from_secs(2))
                .connect_timeout(Duration::from_secs(5))
                .confirm_timeout(Duration::from_secs(5));
            let messages = MessageServices::postgres(&stage.way(&[server]).await.config).await.unwrap();
            let messages = messages.with_broker(&broker).await.unwrap();
            messages.broker().unwrap().up_within(PATIENCE).await.unwrap();
            balancers.push(balancer);
            services.push(messages);
        }
        let load = Load::start_with(services[0].clone(), services[1..].to_vec()).await;
        Self { load, balancers, services }
    }

    /// Limits the balancers to these nodes, and cuts connections to others.
    fn turn(&self, cluster: &Cluster, nodes: &[usize]) {
        let addresses: Vec<String> = nodes.iter().map(|&n| cluster.address(n)).collect();
        for balancer in &self.balancers {
            balancer.point_at(&addresses);
            balancer.cut();
        }
    }

    /// Waits until deliveries come again.
    async fn delivers(&self, cluster: &Cluster, by: usize) {
        let (delivered, end) = (self.load.delivered(), Instant::now() + PATIENCE);
        let up = || self.services.iter().all(|messages| messages.broker().unwrap().is_up());
        while !up() || self.load.delivered() < delivered + 20 {
            if Instant::now() > end {
                let columns =
                    ["name", "state", "leader", "online", "messages_ready", "messages_unacknowledged", "consumers"];
                println!("{}", cluster.ctl(by, &[&["list_queues"], &columns[..]].concat()));
                for messages in &self.services {
                    println!("{:?}", messages.broker().unwrap().stats());
                }
                panic!("no deliveries for {PATIENCE:?}");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn settle(mut self, title: &str, server: &crate::ha::cluster::Node) -> Account {
        let account = Account::settle(title, &mut self.load, server, false).await;
        let (done, delivered) = (self.load.done(), self.load.delivered());
        self.load.stop_executors().await;
        for messages in &self.services {
            messages.broker().unwrap().close(Duration::from_millis(500)).await;
        }
        account.telling(format!("{delivered} of {done} by the broker"))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "starts a cluster: cargo xtask ha"]
async fn node_killed() {
    let title = "RabbitMQ, node killed, balancer";
    let stage = Stage::open(title);
    let server = stage.primary().await;
    let mut cluster = Cluster::start(&stage.rig);
    let crew = Crew::start(&stage, &server, &cluster).await;
    crew.delivers(&cluster, 1).await;
    crew.load.goes_on_for(some()).await;
    let fault = Instant::now();
    cluster.kill(0);
    crew.turn(&cluster, &[1, 2]);
    let back = back(&crew.load, &server, fault).await;
    crew.delivers(&cluster, 2).await;
    let delivered = fault.elapsed();
    crew.load.goes_on_for(some()).await;
    let account = crew.settle(title, &server).await;
    account.with(back).telling(format!("deliveries after {:.1} s", delivered.as_secs_f64())).close();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "starts a cluster: cargo xtask ha"]
async fn majority_lost() {
    let title = "RabbitMQ, majority lost and back";
    let stage = Stage::open(title);
    let server = stage.primary().await;
    let mut cluster = Cluster::start(&stage.rig);
    let crew = Crew::start(&stage, &server, &cluster).await;
    crew.delivers(&cluster, 1).await;
    crew.load.goes_on_for(some()).await;
    let fault = Instant::now();
    cluster.kill(0);
    cluster.kill(1);
    crew.turn(&cluster, &[2]);
    let back = back(&crew.load, &server, fault).await;
    crew.load.goes_on_for(some()).await;
    let returned = Instant::now();
    cluster.back(&[0, 1]);
    crew.turn(&cluster, &[0, 1, 2]);
    crew.delivers(&cluster, 2).await;
    let delivered = returned.elapsed();
    let account = crew.settle(title, &server).await;
    let said = format!("deliveries {:.1} s after the nodes were started again", delivered.as_secs_f64());
    account.with(back).telling(said).close();
}
