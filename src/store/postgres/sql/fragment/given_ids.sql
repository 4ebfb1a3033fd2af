-- What is known of the ids that senders chose. Materialized, so that it waits for other senders of these ids only once.
chosen as materialized (
    select d.job_id, d.known
    from {schema}.decide_ids(
        case when true = any (:given::bool[]) then array(select g.id from unnest(:id::uuid[], :given::bool[]) as g(id, given) where g.given) end,
        case when true = any (:given::bool[]) then array(select g.kind from unnest(:kind::text[], :given::bool[]) as g(kind, given) where g.given) end,
        case when true = any (:given::bool[]) then array(select g.queue from unnest(:queue::text[], :given::bool[]) as g(queue, given) where g.given) end
    ) d
)
