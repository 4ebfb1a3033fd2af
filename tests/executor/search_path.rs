//! Who may create functions and operators in a schema of the search path must not run code as those who send and execute jobs.
//!
//! An operator whose operand types fit a call exactly wins over one of PostgreSQL's that needs a conversion. On PostgreSQL 13 and 14 everybody may
//! create objects in `public`, which is in the path of most roles.

use std::collections::BTreeSet;
use std::time::Duration;

use jobwright::admin::{Rule, Scope};
use jobwright::internal::engine::testing::postgres_statements;
use jobwright::{CommandExecutor, Keep, NewJob, Outcome};
use tokio_postgres::Client;

use crate::support::TestDb as _;
use crate::support::environment::{World as _, lease};
use crate::support::postgres::Pg;

/// Operators of each name, for each two of these types. They are in the schema of the test, which is the search path of its connections.
const OPERATORS: &str = "
    do $$
    declare
        types constant text[] := array['int2', 'int4', 'int8', 'float8', 'numeric', 'text', 'varchar', 'uuid', 'bool', 'jsonb', 'bytea', 'timestamptz', 'interval',
                                       'tid', 'xid8', 'int4[]', 'int8[]', 'text[]', 'uuid[]', 'bytea[]', 'tid[]'];
        l text; r text; o text; f text;
    begin
        foreach l in array types loop foreach r in array types loop
            execute format('create function hostile_b(a %s, b %s) returns bool language plpgsql as $f$ begin raise exception ''hostile''; end $f$', l, r);
            execute format('create function hostile_l(a %s, b %s) returns %s language plpgsql as $f$ begin raise exception ''hostile''; end $f$', l, r, l);
            execute format('create function hostile_t(a %s, b %s) returns text language plpgsql as $f$ begin raise exception ''hostile''; end $f$', l, r);
            foreach o in array array['=','<>','<','>','<=','>=','+','-','*','/','%','||','->','->>','#>>','#-','?','?|','?&','@>','<@','&&','&','|','~','!~','~~','!~~','<<'] loop
                f := case when o in ('->>', '#>>') then 'hostile_t' when o in ('+','-','*','/','%','||','->','#-','&','|','<<') then 'hostile_l' else 'hostile_b' end;
                execute format('create operator %s (leftarg = %s, rightarg = %s, function = %s)', o, l, r, f);
            end loop;
        end loop; end loop;
    end $$";

/// Functions of one, two and three arguments with these names.
const FUNCTIONS: &str = "
    do $$
    declare
        types constant text[] := array['int4', 'int8', 'float8', 'numeric', 'text', 'uuid', 'bool', 'jsonb', 'bytea', 'timestamptz', 'interval', 'int4[]', 'int8[]',
                                       'text[]', 'uuid[]', 'tid[]'];
        n text; l text; r text;
    begin
        foreach n in array '{NAMES}'::text[] loop foreach l in array types loop
            execute format('create function %I(a %s) returns %s language plpgsql as $f$ begin raise exception ''hostile''; end $f$', n, l, l);
            foreach r in array array['int4', 'int8', 'text', 'jsonb', 'uuid', 'timestamptz'] loop
                execute format('create function %I(a %s, b %s) returns %s language plpgsql as $f$ begin raise exception ''hostile''; end $f$', n, l, r, l);
            end loop;
            execute format('create function %I(a %s, b text, c bool) returns %s language plpgsql as $f$ begin raise exception ''hostile''; end $f$', n, l, l);
        end loop; end loop;
    end $$";

/// What a function depends on that is not PostgreSQL's own, and not the engine's.
const FOREIGN: &str = "
    select case d.refclassid when 'pg_operator'::regclass then d.refobjid::regoperator::text else d.refobjid::regprocedure::text end
    from pg_depend d
    where d.classid = 'pg_proc'::regclass and d.objid = 'probe'::regproc
      and (d.refclassid = 'pg_operator'::regclass or d.refclassid = 'pg_proc'::regclass and d.refobjid = any ($1::oid[]) is false)";

/// Returns the names of all functions that a statement calls without a schema, and some more words.
fn called(sql: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (at, _) in sql.match_indices('(') {
        let before = &sql[..at];
        let start =
            before.rfind(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_')).map_or(0, |end| end + 1);
        if start < at && !before[..start].ends_with(['.', ':']) {
            names.insert(before[start..].to_owned());
        }
    }
    names
}

/// Returns why this is no body of a function, or what foreign it depends on.
async fn fault(client: &Client, name: &str, arguments: &str, returns: &str, body: &str, own: &[u32]) -> Option<String> {
    let create =
        format!("create function probe({arguments}) returns {returns} language sql begin atomic\n{body};\nend");
    client.batch_execute("savepoint probe").await.unwrap();
    let fault = match client.batch_execute(&create).await {
        Err(error) => {
            let error = error.as_db_error().unwrap();
            let at = match error.position() {
                Some(tokio_postgres::error::ErrorPosition::Original(at)) => *at as usize,
                _ => 0,
            };
            let near: String = create.chars().skip(at.saturating_sub(60)).take(120).collect();
            Some(format!("{name} is read in another way: {} near {near:?}", error.message()))
        }
        Ok(()) => {
            let foreign = client.query(FOREIGN, &[&own]).await.unwrap();
            let foreign: Vec<String> = foreign.iter().map(|row| row.get(0)).collect();
            (!foreign.is_empty()).then(|| format!("{name} calls what others can put in the way: {foreign:?}"))
        }
    };
    client.batch_execute("rollback to probe").await.unwrap();
    fault
}

/// The body of a function in standard SQL is read when the function is created, and the server records what it depends on, but for its own functions.
#[tokio::test]
async fn each_statement_means_the_same_whatever_the_search_path_is() {
    let Some(db) = Pg::<false>::create().await else { return };
    let client = db.client().await;
    let version: i32 = client.query_one("select current_setting('server_version_num')::int", &[]).await.unwrap().get(0);
    if version < 140_000 {
        return;
    }
    let statements = postgres_statements(db.schema(), Keep::All);
    let names: BTreeSet<String> = statements.iter().flat_map(|(_, sql, _)| called(sql)).collect();
    let names = names.into_iter().collect::<Vec<_>>().join(",");
    let own = "select oid from pg_proc where pronamespace = $1::text::regnamespace";
    let own: Vec<u32> = client.query(own, &[&db.schema()]).await.unwrap().iter().map(|row| row.get(0)).collect();
    // A function without a path of its own is read with its caller's.
    let functions = "
        select p.proname::text, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid), p.prosrc, l.lanname::text
        from pg_proc p join pg_language l on l.oid = p.prolang
        where p.oid = any ($1) and not exists (select from unnest(p.proconfig) c where c like 'search\\_path=%')";
    let functions = client.query(functions, &[&own]).await.unwrap();
    // Rolled back at the end: to drop so many objects would take more locks than a server has.
    client.batch_execute("begin").await.unwrap();
    client.batch_execute(OPERATORS).await.unwrap();
    client.batch_execute(&FUNCTIONS.replace("NAMES", &names)).await.unwrap();
    let mut faults = Vec::new();
    for (name, sql, types) in &statements {
        faults.extend(fault(&client, name, &types.join(", "), "void", sql, &own).await);
    }
    for row in functions {
        let [name, arguments, returns, body, language]: [String; 5] = std::array::from_fn(|column| row.get(column));
        match language.as_str() {
            "sql" => faults.extend(fault(&client, &name, &arguments, &returns, body.trim(), &own).await),
            // It is called for each row: tried below.
            _ if name == "is_carriable" => {}
            // They compare numbers and a setting, and are called with each claim: a path costs more than what they do.
            _ => assert!(["hold_node", "refuse_node"].contains(&name.as_str()), "{name} has no search path of its own"),
        }
    }
    // Operators that are found before PostgreSQL's, and each of which fails.
    client.batch_execute(&format!("set local search_path = {}, pg_catalog", db.schema())).await.unwrap();
    for parts in CARRIABLE {
        let carriable = format!("select {}.is_carriable({parts})", db.schema());
        assert!(client.query_one(&carriable, &[]).await.unwrap().get::<_, bool>(0), "{parts}");
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

/// Options and headers that lead through all of `is_carriable`.
const CARRIABLE: [&str; 3] = [
    r#"'{"group": "g"}'::jsonb, null::jsonb"#,
    r#"'{"group": "g", "tenant": "t", "limit": "l", "expires": 5, "ttl": 5, "aged": 5}'::jsonb, '{"h": "x"}'::jsonb"#,
    r#"null::jsonb, '{"h": 1}'::jsonb"#,
];

/// Those of the operators and functions with which it was possible.
const TRAPS: &str = "
    create table loot (who text not null, at timestamptz default clock_timestamp());
    create function trap(n int8, i interval) returns interval language plpgsql as
        $$ begin insert into loot (who) values (current_user); return n::float8 operator(pg_catalog.*) i; end $$;
    create operator * (leftarg = int8, rightarg = interval, function = trap);
    create function trap(a jsonb, b jsonb) returns bool language plpgsql as $$ begin insert into loot (who) values (current_user); return false; end $$;
    create operator ? (leftarg = jsonb, rightarg = jsonb, function = trap);
    create operator -> (leftarg = jsonb, rightarg = jsonb, function = trap);
    create operator ->> (leftarg = jsonb, rightarg = jsonb, function = trap);
    create function unnest(ids uuid[]) returns setof uuid language plpgsql as
        $$ begin insert into loot (who) values (current_user); return query select * from pg_catalog.unnest(ids); end $$;
    create function jsonb_build_object(a text, b int8) returns jsonb language plpgsql as
        $$ begin insert into loot (who) values (current_user); return '{}'; end $$";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_objects_in_the_search_path_are_never_called() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let messages = db.messages().await;
    let rule = Rule::new(Scope::Queue, "default").rate(1000, Duration::from_secs(10));
    messages.admin().put_rule(&rule).await.unwrap();
    let client = db.client().await;
    client.batch_execute(TRAPS).await.unwrap();
    let caught = "select 1::int8 * interval '1 second', unnest(array[]::uuid[])";
    client.query(caught, &[]).await.unwrap();
    assert!(client.execute("delete from loot", &[]).await.unwrap() > 0, "the traps catch nothing");

    let executor = CommandExecutor::builder(messages.clone())
        .config(lease(30).poll_interval(Duration::from_millis(100)))
        .handle_with("works", |cx| {
            Box::pin(async move {
                let id = cx.job().id.to_string();
                cx.transaction().await?.execute("insert into ledger (line) values ($1)", &[&id]).await?;
                Ok(Outcome::Done)
            })
        })
        .start()
        .await
        .unwrap();
    let job = || NewJob::json("works", &());
    let mut cx = messages.begin();
    cx.transaction().await.unwrap().execute("insert into ledger (line) values ('sent')", &[]).await.unwrap();
    for one in [
        job(),
        job().delay(Duration::from_millis(50)),
        job().exclusive("g"),
        job().tenant("t").ttl(Duration::from_secs(600)),
        job().id(jobwright::JobId::new()),
    ] {
        cx.send(one).unwrap();
    }
    cx.commit().await.unwrap();
    messages.send(job().exclusive("g")).await.unwrap();
    client
        .batch_execute("select send('works', '1', exclusive_group => 'g', ttl => '1 hour'); select wake()")
        .await
        .unwrap();
    db.drained().await;
    executor.shutdown(Duration::ZERO).await.unwrap();
    let loot: i64 = client.query_one("select count(*) from loot", &[]).await.unwrap().get(0);
    assert_eq!((loot, db.ledger().await.len()), (0, 8));
}
