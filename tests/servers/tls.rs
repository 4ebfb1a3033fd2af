//! A PostgreSQL server with TLS, and the effect of each `sslmode`.

use jobwright::{DatabaseConfig, ErrorKind, Postgres};

use crate::support::certificates::Authority;
use crate::support::postgres_url;
use crate::support::private_pg::PrivatePg;

struct Encrypted {
    authority: Authority,
    stranger: Authority,
    server: PrivatePg,
}

impl Encrypted {
    fn start() -> Self {
        let (authority, stranger) = (Authority::new(), Authority::new());
        authority.sign("server", "DNS:localhost");
        authority.sign("postgres", "DNS:client");
        stranger.sign("postgres", "DNS:client");
        let hba = "hostssl postgres guarded 127.0.0.1/32 scram-sha-256\n\
                   hostssl template1 all 127.0.0.1/32 cert\n\
                   hostssl all all 127.0.0.1/32 trust\n";
        let server = PrivatePg::start_with(
            &["ssl = on", "ssl_cert_file = 'server.pem'", "ssl_key_file = 'server.key'", "ssl_ca_file = 'ca.pem'"],
            &[
                ("server.pem", &authority.text("server.pem")),
                ("server.key", &authority.text("server.key")),
                ("ca.pem", &authority.text("ca.pem")),
                ("pg_hba.conf", hba),
            ],
        );
        Self { authority, stranger, server }
    }

    /// Connects to a name that is in the certificate, or to the address, which is not.
    async fn connect(&self, host: &str, database: &str, parameters: &str) -> Result<(), jobwright::Error> {
        let port = self.server.address().rsplit_once(':').unwrap().1.to_owned();
        // The name, wherever the resolver would send it.
        let at = if host == "localhost" { "&hostaddr=127.0.0.1" } else { "" };
        let url = format!("postgres://postgres@{host}:{port}/{database}?{parameters}{at}");
        let words = {
            let parameters = format!("{parameters}{at}").replace('&', " ").replace("%20", "\\ ").replace("%2F", "/");
            format!("host={host} port={port} dbname={database} user=postgres {parameters}")
        };
        let results = [Self::one(url).await, Self::one(words).await];
        let [by_url, by_words] = results;
        assert_eq!(by_url.is_ok(), by_words.is_ok(), "{by_url:?} {by_words:?}");
        by_url
    }

    async fn one(url: String) -> Result<(), jobwright::Error> {
        Postgres::connect(&DatabaseConfig::url(url)).await.map(drop)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sslmode_means_what_libpq_means() {
    if postgres_url().is_none() {
        return;
    }
    let it = Encrypted::start();
    // A path that only full decoding reads.
    let folder = it.authority.dir().join("a b");
    std::fs::create_dir(&folder).unwrap();
    std::fs::copy(it.authority.path("ca.pem"), folder.join("ca.pem")).unwrap();
    let root = format!("sslrootcert={}", it.authority.path("a%20b/ca.pem").replace('/', "%2F"));
    let stranger = format!("sslrootcert={}", it.stranger.path("ca.pem"));
    for (host, parameters, good) in [
        ("127.0.0.1", "sslmode=disable".to_owned(), false),
        ("127.0.0.1", "sslmode=prefer".to_owned(), true),
        ("127.0.0.1", "sslmode=require".to_owned(), true),
        ("127.0.0.1", format!("sslmode=require&{root}"), true),
        ("127.0.0.1", format!("sslmode=require&{stranger}"), false),
        ("127.0.0.1", format!("sslmode=verify-ca&{root}"), true),
        ("127.0.0.1", format!("sslmode=verify-ca&{stranger}"), false),
        ("127.0.0.1", format!("sslmode=verify-full&{root}"), false),
        ("localhost", format!("sslmode=verify-full&{root}"), true),
        ("localhost", format!("sslmode=verify-full&{stranger}"), false),
        ("localhost", "sslrootcert=system".to_owned(), false),
        ("localhost", format!("sslmode=verify-full&{root}&ssl_min_protocol_version=TLSv1.3"), true),
        ("localhost", format!("sslmode=verify-full&{root}&ssl_max_protocol_version=TLSv1.2"), true),
    ] {
        let connected = it.connect(host, "postgres", &parameters).await;
        assert_eq!(connected.is_ok(), good, "{host} {parameters}: {connected:?}");
        if let Err(error) = connected
            && !parameters.contains("disable")
        {
            // The server is up, so the error must not say that it is down.
            assert_eq!(error.kind(), ErrorKind::Config, "{error}");
            let text = error.to_string();
            assert!(text.contains("certificate") && text.contains("sslrootcert") && !text.contains("is up"), "{text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_certificate_opens_the_door() {
    if postgres_url().is_none() {
        return;
    }
    let it = Encrypted::start();
    let root = format!("sslmode=verify-full&sslrootcert={}", it.authority.path("ca.pem"));
    let with = |authority: &Authority| {
        format!("{root}&sslcert={}&sslkey={}", authority.path("postgres.pem"), authority.path("postgres.key"))
    };
    it.connect("localhost", "template1", &with(&it.authority)).await.unwrap();
    let error = it.connect("localhost", "template1", &root).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    let error = it.connect("localhost", "template1", &with(&it.stranger)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("sslcert"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_password_and_missing_tls_are_said() {
    if postgres_url().is_none() {
        return;
    }
    let it = Encrypted::start();
    let aside = format!("postgres://postgres@{}/postgres?sslmode=require", it.server.address());
    Encrypted::one(aside).await.unwrap();
    let guarded = format!("postgres://guarded@{}/postgres?sslmode=require", it.server.address());
    let error = Encrypted::one(guarded).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("password") && !error.to_string().contains("is up"), "{error}");

    let plain = PrivatePg::start();
    let error = Encrypted::one(format!("{}?sslmode=require", plain.url())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("TLS") && !error.to_string().contains("is up"), "{error}");
}
