-- Sends hints to other processes. Always in a transaction of its own, never in a user's: NOTIFY serialises commits.
select pg_notify($1, hint) from unnest($2::text[]) as hint
