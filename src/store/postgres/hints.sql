-- name: notify
-- Sends hints to other processes. Always in a transaction of its own, never in a user's: NOTIFY serialises commits.
-- :channel::text, :hints::text[]
select pg_notify(:channel, hint) from unnest(:hints::text[]) as hint
