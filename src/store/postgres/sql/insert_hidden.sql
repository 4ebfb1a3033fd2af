-- Like insert_ready.sql, for a flush of which some rows are hidden for their delivery. A separate statement, so that installations without
-- a broker pay nothing for it.
-- {content_arrays}, :holds_us::int8[]
with flushed as (
    insert into {schema}.job ({content}, visible_at)
    select {content_values:m},
           case when m.hold_us > 0 then clock_timestamp() + m.hold_us::float8 * interval '1 microsecond' end
    from unnest({content_arrays},
                :holds_us::int8[])
             as m({content}, hold_us)
)
select pg_current_xact_id()::text as xid
