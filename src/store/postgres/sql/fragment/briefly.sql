-- A statement that carries the work of several waits for no row, key or id for longer than this (in milliseconds): one that an application or an
-- operator has locked must not hold up the others. The server then ends the statement with `lock_not_available`, and the caller finds out which it
-- was (held_jobs.sql, or by halving). It holds for the transaction of the statement alone, so it needs no setting of the session, which a pooler
-- would share. The subselect depends on no row, so it runs once, before a row is read. Locks of whole tables are taken before that, and are
-- waited for.
(select set_config('lock_timeout', '300', true)) is not null
