-- Rows that become dead letters because no statement can carry them on (`gone`, with the reason `why` and how many attempts they cost,
-- `cost`): what does not fit is cut or left out, and the record says what it was. Content is moved without being looked at.
buried as materialized (
    select *, least(greatest(attempt, 0), 1999999999) + cost as attempts, {fit_options} as fit from gone
),
dead_lettered as (
    insert into {schema}.dead_letter_job ({carried}, version, attempt, reason, errors, options)
    select {repaired}, version::int8 & 2147483647::int8, attempts, why,
           {kept_errors:b} || jsonb_strip_nulls(jsonb_build_object(
               'attempt', attempts, 'at', clock_timestamp(), 'node', :node::int8, 'error', why,
               'detail', nullif(concat_ws('; ',
                   case when octet_length(kind) > 100 then 'the kind was ' || left(kind, 300) end,
                   case when octet_length(queue) > 100 then 'the queue was ' || left(queue, 300) end,
                   case when not isfinite(created_at) then 'it was sent at '::text || created_at::text end,
                   case when fit is distinct from options and pg_column_size(options) <= 4096 then 'the options were ' || left(options::text, 1000) end
               ), ''))),
           fit
    from buried b
    on conflict (id) do nothing
)
