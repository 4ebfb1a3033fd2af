//! The cost of a job in statements, WAL, pages and allocations, compared with `bench/counts.json`.

use crate::run::{self, Result};
use crate::services::postgres;
use crate::{runner, test};

/// Everything that depends on time or chance is off, so that the same work gives the same counts on any machine.
const SETTINGS: &str = "shared_preload_libraries = 'pg_stat_statements'\npg_stat_statements.track = top\nautovacuum = off\n\
                        full_page_writes = off\nfsync = off\ncheckpoint_timeout = 1h\nmax_wal_size = 8GB\n\
                        shared_buffers = 512MB\n";

pub(crate) fn run(write: bool) -> Result<()> {
    let server = postgres::private("counts", SETTINGS)?;
    runner::ensure()?;
    let mut command = test::one("--bin", "jobwright-bench", "counts::no_count_has_grown");
    command.env("DATABASE_URL", server.url());
    command.env("JOBWRIGHT_COUNTS", if write { "write" } else { "check" });
    run::run(&mut command, run::CARGO)
}
