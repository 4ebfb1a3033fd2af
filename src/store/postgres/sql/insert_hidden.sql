-- Like insert_ready.sql, for a flush of which some rows are hidden for their delivery. A separate statement, so that installations without
-- a broker pay nothing for it.
with flushed as (
    insert into {schema}.job (id, kind, queue, rank, max_attempts, payload, body, content_type, headers, visible_at)
    select m.id, m.kind, m.queue, m.rank, m.max_attempts, m.payload::jsonb, m.body, m.content_type, m.headers,
           case when m.hold_us > 0 then clock_timestamp() + m.hold_us * interval '1 microsecond' end
    from unnest($1::uuid[], $2::text[], $3::text[], $4::int2[], $5::int4[], $6::text[], $7::bytea[], $8::text[], $9::jsonb[],
                $10::int8[])
             as m(id, kind, queue, rank, max_attempts, payload, body, content_type, headers, hold_us)
)
select pg_current_xact_id()::text
