//! Refusals by a server, and their errors.

use jobwright::{DatabaseConfig, ErrorKind, MessageServices};

use crate::support::TestDb;
use crate::support::jobs::job;
use crate::support::postgres::Pg;

/// A trigger gives the answer of a full disk: the outcome is known.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_a_refusal_and_nothing_unknown() {
    let Some(db) = Pg::<false>::create().await else { return };
    db.raw(
        "create function {schema}.full_disk() returns trigger language plpgsql as
         $$ begin raise exception 'could not extend file' using errcode = 'disk_full'; end $$;
         create constraint trigger full_disk after insert on {schema}.job deferrable initially deferred
         for each row execute function {schema}.full_disk()",
    )
    .await;
    let messages = MessageServices::postgres(&db.config()).await.unwrap();
    let alone = messages.send(job()).await.unwrap_err();
    let mut cx = messages.begin();
    cx.send(job()).unwrap();
    cx.transaction().await.unwrap();
    let together = cx.commit().await.unwrap_err();
    for error in [alone, together] {
        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
        assert!(error.to_string().contains("53100") && error.is_retryable(), "{error}");
    }
    assert!(db.jobs().all().await.is_empty());
}

/// Whatever is wrong with a URL, its password is in no error.
#[tokio::test]
async fn no_error_shows_a_password() {
    let Some(_) = Pg::<false>::create_empty().await else { return };
    let nobody = crate::servers::closed().await;
    for password in [
        "sek%40qxz",
        "sek@qxz",
        "sek/qxz",
        "sek?qxz",
        "sek#qxz",
        "sek:qxz",
        "sek:w/qxz",
        "sek qxz",
        "sek%qxz",
        "sek[qxz",
    ] {
        for url in [
            format!("postgres://u:{password}@{nobody}/d"),
            format!("postgres://u:{password}@{nobody},{nobody}/d?connect_timeout=1"),
            format!("postgres://{nobody}/d?password={password}"),
            format!("host=127.0.0.1 port={} password={password}", nobody.port()),
        ] {
            let config = DatabaseConfig::url(&url);
            let error = MessageServices::postgres(&config).await.map(drop).unwrap_err();
            for shown in [error.to_string(), format!("{error:?}"), format!("{config:?}"), config.url.to_string()] {
                assert!(!shown.contains("sek") && !shown.contains("qxz"), "{url}: {shown}");
            }
        }
    }
}
