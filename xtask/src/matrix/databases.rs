//! Databases as others set them up: each is legal, and none is like a new one. The stores' conformance tests run in each.
//!
//! A setting that can harm the engine is either overruled by the engine's own sessions, or makes no difference; these databases show which ones
//! do neither. What a setting forbids on purpose (a database that takes no writes) is not here: tests of their own expect its error.

use crate::run::Result;
use crate::services::postgres::{self, Private};

/// One way to set a database up.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) name: &'static str,
    pub(crate) why: &'static str,
    /// Lines of `postgresql.conf`.
    settings: &'static str,
    /// Statements of an administrator in `postgres`, before the database is used.
    set_up: &'static [&'static str],
    /// The role that uses the database.
    role: &'static str,
    /// Its database.
    dbname: &'static str,
    /// Statements of an administrator in that database.
    inside: &'static [&'static str],
}

pub(crate) const DATABASES: [Database; 2] = [
    Database {
        name: "defaults",
        why: "logical decoding of all tables, and defaults of the database that change what statements mean, print or plan",
        settings: "wal_level = logical",
        set_up: &[
            "alter database postgres set datestyle = 'German, DMY'",
            "alter database postgres set intervalstyle = 'sql_standard'",
            "alter database postgres set timezone = 'Asia/Kathmandu'",
            "alter database postgres set bytea_output = 'escape'",
            "alter database postgres set standard_conforming_strings = off",
            "alter database postgres set transform_null_equals = on",
            "alter database postgres set extra_float_digits = -15",
            "alter database postgres set array_nulls = off",
            "alter database postgres set quote_all_identifiers = on",
            "alter database postgres set row_security = off",
            "alter database postgres set enable_indexscan = off",
            "alter database postgres set enable_tidscan = off",
            "alter database postgres set join_collapse_limit = 1",
            "alter database postgres set work_mem = '64kB'",
            "alter database postgres set client_min_messages = 'debug1'",
            "alter database postgres set lc_messages = 'C'",
        ],
        role: "postgres",
        dbname: "postgres",
        inside: &["create publication everything for all tables"],
    },
    Database {
        name: "hardened",
        why: "an ordinary role in a database of its own, where nothing is for everybody; Turkish letters; a search path with other objects in it",
        settings: "",
        set_up: &[
            "create role service login",
            "create database service owner service template template0 encoding 'UTF8' locale 'C' locale_provider icu icu_locale 'tr-TR'",
            "revoke all on database service from public",
            "revoke all on database postgres from public",
            "alter role service set search_path = trap, public",
            "alter role service set idle_session_timeout = '30s'",
        ],
        role: "service",
        dbname: "service",
        inside: &[
            "revoke all on schema public from public",
            "alter default privileges for role service revoke execute on functions from public",
            "alter default privileges for role service revoke usage on types from public",
            "create schema trap",
            "grant usage on schema trap to service",
            // Each fits its arguments as well as the one of PostgreSQL does, and raises an error.
            "create function trap.refuse(integer, integer) returns boolean language plpgsql as \
                 $$ begin raise exception 'an operator of another schema was called'; end $$",
            "create operator trap.= (function = trap.refuse, leftarg = integer, rightarg = integer)",
            "create operator trap.< (function = trap.refuse, leftarg = integer, rightarg = integer)",
            "create function trap.now() returns timestamptz language plpgsql as \
                 $$ begin raise exception 'a function of another schema was called'; end $$",
            "create function trap.gen_random_uuid() returns uuid language plpgsql as \
                 $$ begin raise exception 'a function of another schema was called'; end $$",
            "create table trap.job (id integer)",
        ],
    },
];

impl Database {
    /// Starts a server with this database, from Debian's programs. Returns it with the database's URL.
    pub(crate) fn start(&self) -> Result<(Private, String)> {
        let server = postgres::private("matrix-postgres", self.settings)?;
        for statement in self.set_up {
            server.execute("postgres", statement)?;
        }
        for statement in self.inside {
            server.execute(self.dbname, statement)?;
        }
        let url = server.url_of(self.role, self.dbname)?;
        Ok((server, url))
    }
}
