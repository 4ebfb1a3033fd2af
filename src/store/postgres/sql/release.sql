-- Makes jobs wait again, with their attempt given back, each only if this claim still owns the row. No id is given twice. See settle.sql
-- for its shape.
-- A job with a key is blocked on it again, and the key is unblocked: the lease under which the job was claimed may be gone already.
-- A suspect (suspects.sql) waits for no key.
-- :node::int8, :ids::uuid[], :versions::int8[], :error_texts::text[], :details::text[]
with back as (
    update {schema}.job j
    set lock_owner = null, claimed_at = null, attempt = greatest(j.attempt - 1, 0),
        errors = case when (:error_texts::text[])[array_position(:ids::uuid[], j.id)] is null then j.errors
                      else {kept_errors:j}
                          || jsonb_strip_nulls(jsonb_build_object('attempt', j.attempt, 'at', clock_timestamp(), 'node', :node,
                                                                  'error', (:error_texts::text[])[array_position(:ids::uuid[], j.id)],
                                                                  'detail', (:details::text[])[array_position(:ids::uuid[], j.id)]))
                 end
    where {briefly}
      and j.id = any (:ids::uuid[])
      and j.lock_owner = :node
      and j.version = (:versions::int8[])[array_position(:ids::uuid[], j.id)]
    returning j.id, j.blocked_on
),
unblocked as (
    insert into {schema}.unblock (key) select distinct blocked_on from back where blocked_on <> 'alone'
)
select id from back
