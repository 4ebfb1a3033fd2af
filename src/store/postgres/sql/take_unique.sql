-- See the function: it is one because each of its steps must see what was committed meanwhile.
-- A key is held for no longer than whoever asks for it would hold it: one that a clock took which was ahead would be held for as long as
-- that was. The function is given what it depends on, so that it comes after this.
with shortened as (
    update {schema}.unique_key k
    set expires_at = clock_timestamp() + a.period * interval '1 microsecond'
    from unnest($1::bytea[], $4::int8[]) as a(key, period)
    where a.period is not null and k.key = a.key and k.expires_at > clock_timestamp() + a.period * interval '1 microsecond'
    returning 1
),
first as materialized (
    select count(*) as shortened from shortened
)
select t.n, t.verdict, t.holder
from first
cross join lateral {schema}.take_unique(case when first.shortened >= 0 then $1::bytea[] end, $2, $3, $4, $5) t
