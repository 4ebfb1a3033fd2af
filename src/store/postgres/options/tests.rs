use super::*;

fn read(url: &str) -> Result<PgOptions> {
    PgOptions::read(url, &DatabaseConfig::default())
}

#[test]
fn sslmode_means_what_libpq_means() {
    let tls = |url: &str| read(url).map(|options| (options.driver.get_ssl_mode(), options.tls.verify));
    for (url, mode, verify) in [
        ("postgres://u@127.0.0.1/d", SslMode::Disable, Verify::Nothing),
        ("postgres://u@127.0.0.1,db.example/d", SslMode::Prefer, Verify::Nothing),
        ("postgres://u@db.example/d", SslMode::Prefer, Verify::Nothing),
        ("postgres://u@127.0.0.1/d?sslmode=require", SslMode::Require, Verify::Nothing),
        ("postgres://u@h/d?ssl=true", SslMode::Require, Verify::Nothing),
        ("postgres://u@h/d?sslmode=require&sslrootcert=%2Fa%20b.pem", SslMode::Require, Verify::Chain),
        ("postgres://u@h/d?sslmode=verify-ca", SslMode::Require, Verify::Chain),
        ("postgres://u@h/d?sslmode=verify-full&sslrootcert=/a", SslMode::Require, Verify::Full),
        ("postgres://u@h/d?sslrootcert=system", SslMode::Require, Verify::Full),
        ("host=h sslmode=verify-full sslrootcert='/a b.pem'", SslMode::Require, Verify::Full),
        ("postgres:///d?host=/var/run", SslMode::Disable, Verify::Nothing),
    ] {
        assert_eq!(tls(url).unwrap(), (mode, verify), "{url}");
    }
    let roots = |url: &str| read(url).unwrap().tls.roots;
    let file = Some(Roots::File("/a b.pem".into()));
    assert_eq!(roots("postgres://u@h/d?sslrootcert=%2fa%20b.pem"), file);
    assert_eq!(roots("host=h sslrootcert='/a b.pem'"), file);
}

#[test]
fn hosts_ports_and_addresses_belong_together() {
    let servers = |url: &str| read(url).unwrap().servers;
    let tcp = |name: &str, ip: Option<&str>| Server::Tcp(name.to_owned(), ip.map(|ip| ip.parse().unwrap()));
    let expected = [(tcp("127.0.0.1", None), 7001), (tcp("::1", None), 7002), (Server::Unix("/var/run".into()), 7003)];
    assert_eq!(servers("postgres://u@127.0.0.1:7001,[::1]:7002,%2Fvar%2Frun:7003/d"), expected);
    let expected = [(tcp("a.example", Some("10.0.0.1")), 7004), (tcp("b.example", Some("10.0.0.2")), 7004)];
    assert_eq!(servers("host=a.example,b.example hostaddr=10.0.0.1,10.0.0.2 port=7004"), expected);
    assert_eq!(servers("hostaddr=10.0.0.1"), [(tcp("10.0.0.1", Some("10.0.0.1")), 5432)]);
    assert!(read("postgres:///d").unwrap_err().to_string().contains("names no host"));
}

/// Checks that each is named, with advice on what to use instead.
#[test]
fn what_is_not_supported_is_named() {
    for (option, said) in [
        ("sslmode=allow", "prefer"),
        ("sslmode=other", "verify-full"),
        ("target_session_attrs=prefer-standby", "primary"),
        ("passfile=/p", "password"),
        ("service=x", "service"),
        ("ssl_min_protocol_version=TLSv9", "TLSv1.3"),
        ("sslcert=/c", "sslkey"),
        ("sslkey=/k", "sslcert"),
        ("sslcrl=/c", "revoked"),
        ("sslpassword=SEKRIT", "openssl"),
        ("gssencmode=require", "GSSAPI"),
        ("require_auth=scram-sha-256", "channel_binding"),
        ("client_encoding=LATIN1", "UTF-8"),
        ("connect_timeout=soon", "number"),
        ("sslmode=require&sslrootcert=system", "verify-full"),
        ("no_such=SEKRIT", "not known"),
    ] {
        let key = option.split('=').next().unwrap();
        for url in [format!("postgres://u:SEKRIT@h/d?{option}"), format!("host=h {}", option.replace('&', " "))] {
            let error = read(&url).unwrap_err();
            let text = error.to_string();
            assert_eq!(error.kind(), crate::ErrorKind::Config, "{text}");
            assert!(text.contains(&format!("`{key}`")) && text.contains(said), "{url}: {text}");
            assert!(!text.contains("SEKRIT"), "{text}");
        }
    }
}

#[test]
fn a_url_that_cant_be_read_is_refused_without_its_password() {
    for url in
        ["postgres://u:secret@h:port/d", "postgres://u:p@secret:w/rd@h/d", "postgres://u:secret?x@h/d", "host=h secret"]
    {
        let error = read(url).unwrap_err().to_string();
        assert!(!error.contains("secret") && error.contains("postgres://user:password"), "{error}");
    }
}
