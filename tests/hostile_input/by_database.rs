//! The corpus through the database: the function `send`, and the library.

use jobwright::admin::JobState;
use jobwright::internal::parse_duration;
use jobwright::{ErrorKind, JobId, NewJob, Payload, Unique};
use std::fmt::Write as _;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::delivery::site::{brisk, noting};
use crate::hostile_input::by_broker::check;
use crate::hostile_input::corpus::{Nasty, Say, corpus};
use crate::hostile_input::producer::Told;
use crate::support::environment::{PATIENCE, World as _};
use crate::support::postgres::Pg;
use crate::support::{TestDb as _, eventually};

/// Calls the function with all its arguments as bytes, so that values which are no text can be passed too. `None`: it has no such argument.
pub(crate) async fn by_sql(
    client: &tokio_postgres::Client,
    schema: &str,
    nasty: &Nasty,
) -> Option<Result<JobId, tokio_postgres::Error>> {
    let mut values: Vec<&[u8]> = vec![&nasty.body];
    let mut arguments = "payload => convert_from($1::bytea, 'UTF8')::jsonb".to_owned();
    let kind: (Say, Vec<u8>) = (Say::Kind, nasty.kind().to_vec());
    let others = nasty.says.iter().filter(|(say, _)| *say != Say::Kind);
    let (mut names, mut texts) = (Vec::new(), Vec::new());
    for (say, value) in [&kind].into_iter().chain(others) {
        let (name, cast) = match say {
            Say::Kind => ("kind", ""),
            Say::Queue => ("queue", ""),
            Say::Priority => ("priority", "::integer"),
            Say::Due => ("due_at", "::timestamptz"),
            Say::Delay => ("due_at", "::interval + now()"),
            Say::Ttl => ("ttl", "::bigint * interval '1 ms'"),
            Say::Attempts => ("max_attempts", "::integer"),
            Say::Group => ("exclusive_group", ""),
            Say::Unique => ("unique_key", ""),
            Say::Tenant => ("tenant", ""),
            Say::LimitKey => ("limit_key", ""),
            Say::Id | Say::ContentType | Say::Encoding | Say::User => return None,
            Say::ReplyTo | Say::Correlation | Say::Header(_) => {
                names.push(match say {
                    Say::Header(name) => name.as_str(),
                    Say::ReplyTo => "replyTo",
                    _ => "correlationId",
                });
                texts.push(std::str::from_utf8(value).ok()?);
                continue;
            }
        };
        values.push(value);
        let _ = write!(arguments, ", {name} => convert_from(${}::bytea, 'UTF8'){cast}", values.len());
    }
    let mut parameters: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
    if !names.is_empty() {
        let next = values.len() + 1;
        let _ = write!(arguments, ", headers => jsonb_object(${next}::text[], ${}::text[])", next + 1);
        parameters.extend([&names as &(dyn ToSql + Sync), &texts]);
    }
    let call = client.query_one(&format!("select {schema}.send({arguments})"), &parameters).await;
    Some(call.map(|row| row.get::<_, Uuid>(0).into()))
}

/// The same for the library, whose types allow less.
pub(crate) fn new_job(nasty: &Nasty) -> Result<Option<NewJob>, String> {
    let Ok(kind) = std::str::from_utf8(nasty.kind()) else { return Ok(None) };
    let json = nasty.said(&Say::ContentType).is_none_or(|said| said == b"application/json");
    let payload = match String::from_utf8(nasty.body.clone()) {
        Ok(text) if json => Payload::json_text(text).map_err(|error| error.to_string())?,
        Err(_) if json => return Ok(None),
        _ => match nasty.said(&Say::ContentType).map(std::str::from_utf8) {
            Some(Ok(said)) => Payload::bytes(said, nasty.body.clone()),
            _ => return Ok(None),
        },
    };
    let mut job = NewJob::new(kind, payload);
    for (say, value) in &nasty.says {
        let Ok(text) = std::str::from_utf8(value) else { return Ok(None) };
        job = match say {
            Say::Kind | Say::ContentType => job,
            Say::Encoding | Say::User => return Ok(None),
            Say::Queue => job.queue(text),
            Say::Id => job.id(text.parse().map_err(|_| "no UUID")?),
            Say::Priority => job.priority(text.parse().map_err(|_| "no priority")?),
            Say::Due => job.at(text.parse().map_err(|_| "no moment")?),
            Say::Delay => job.delay(parse_duration(text)?),
            Say::Ttl => job.ttl(std::time::Duration::from_millis(text.parse().map_err(|_| "no number")?)),
            Say::Attempts => job.max_attempts(text.parse().map_err(|_| "no number")?),
            Say::Group => job.exclusive(text),
            Say::Unique => job.unique(Unique::key(text)),
            Say::Tenant => job.tenant(text),
            Say::LimitKey => job.limit_key(text),
            Say::ReplyTo => job.header("replyTo", text),
            Say::Correlation => job.header("correlationId", text),
            Say::Header(name) => job.header(name, text),
        };
    }
    Ok(Some(job))
}

/// Asserts that each stored job ran, or waits for a time or another node, or is a dead letter with a reason; and that the good ones behind it ran.
async fn settled(db: &Pg<false>, told: &[(Nasty, Option<JobId>)], good: &[JobId]) {
    let jobs = db.jobs();
    eventually(PATIENCE, async || {
        jobs.all().await.iter().all(|job| {
            job.kind != "note"
                || job.queue != "default"
                || !matches!(job.state, JobState::Waiting | JobState::Running | JobState::Blocked)
        })
    })
    .await;
    let ledger = db.ledger().await;
    let missing: Vec<_> = good.iter().filter(|id| !ledger.contains_key(&id.to_string())).collect();
    assert!(missing.is_empty(), "good ones that did not run: {missing:?}");
    assert!(ledger.values().all(|times| *times == 1));
    let stored: Vec<_> = told.iter().filter_map(|(nasty, id)| Some((nasty, (*id)?))).collect();
    assert_eq!(
        ledger.len() + jobs.all().await.len(),
        stored.len() + good.len(),
        "some are there that were refused, or twice, or nowhere"
    );
    for (nasty, id) in stored {
        if ledger.contains_key(&id.to_string()) {
            continue;
        }
        let detail = jobs.detail(id).await;
        match detail.summary.state {
            JobState::Dead => assert!(!detail.dead.unwrap().1.is_empty(), "{} says why", nasty.name),
            _ => assert!(nasty.rests(), "{} neither ran nor is a dead letter", nasty.name),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_sql_it_is_stored_or_refused_and_good_ones_behind_it_run() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let messages = db.messages().await;
    let executor = noting::<Pg<false>>(&messages, brisk(), 10).await;
    let client = db.client().await;
    let (mut told, mut good, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
    for nasty in corpus() {
        if nasty.levels > 0 {
            continue;
        }
        let Some(answer) = by_sql(&client, db.schema(), &nasty).await else { continue };
        if let Err(error) = &answer {
            // The server names the fault: nothing broke, and the connection stays usable.
            let refused = error.as_db_error().unwrap_or_else(|| panic!("{}: {error}", nasty.name));
            let class = &refused.code().code()[..2];
            assert!(["22", "23", "42", "54"].contains(&class), "{}: {refused:?}", nasty.name);
        }
        // The server reads deeper documents than we do, and returns them as text.
        if !nasty.name.contains("levels deep") {
            check(&nasty, answer.is_ok(), &mut wrong);
        }
        told.push((nasty, answer.ok()));
        let behind: Uuid = client.query_one("select send('note', '1')", &[]).await.unwrap().get(0);
        good.push(behind.into());
    }
    assert!(good.len() > 150, "{}", good.len());
    settled(&db, &told, &good).await;
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(executor.stats().leases_lost, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_the_library_it_is_stored_or_refused_and_good_ones_behind_it_run() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let messages = db.messages().await;
    let executor = noting::<Pg<false>>(&messages, brisk(), 10).await;
    let (mut told, mut good, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
    for (number, nasty) in corpus().into_iter().enumerate() {
        if nasty.levels > 0 {
            continue;
        }
        let answer = match new_job(&nasty) {
            Ok(None) => continue,
            Err(error) => Told::Refused(error),
            Ok(Some(job)) => {
                let id = job.job_id();
                // With others, or alone.
                let mut cx = messages.begin();
                let sent = if number.is_multiple_of(2) {
                    let sent = cx.send(job).map(drop);
                    good.push(cx.send(crate::delivery::site::note()).unwrap());
                    match (sent, cx.commit().await) {
                        (Ok(()), Err(error)) => {
                            // Together, or not at all.
                            good.pop();
                            Err(error)
                        }
                        (sent, Ok(())) => sent,
                        (Err(error), Err(other)) => panic!("{}: {error}, {other}", nasty.name),
                    }
                } else {
                    messages.send(job).await.map(drop)
                };
                match sent {
                    Ok(()) => {
                        told.push((nasty.clone(), Some(id)));
                        Told::Taken
                    }
                    Err(error) => {
                        let invalid = matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Database);
                        assert!(invalid, "{}: {error}", nasty.name);
                        Told::Refused(error.to_string())
                    }
                }
            }
        };
        check(&nasty, answer == Told::Taken, &mut wrong);
        good.push(messages.send(crate::delivery::site::note()).await.unwrap());
    }
    assert!(good.len() > 150, "{}", good.len());
    settled(&db, &told, &good).await;
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(executor.stats().leases_lost, 0);
}
