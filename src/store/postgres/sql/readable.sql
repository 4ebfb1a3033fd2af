-- Which of these rows are larger than a claim accepts (:max_bytes, in bytes), with a lower bound of their size. Converts the others to
-- the form that a claim would send, but sends nothing: a row that the server can't send fails here too. Numbers are checked first,
-- because numbers of a few kilobytes can take gigabytes when written out. Their digits are counted without writing any, and large
-- numbers are underestimated.
-- :ids::uuid[], :max_bytes::int8
select id, bytes
from (
    select j.id,
           case
               when octet_length(j.body) > :max_bytes then octet_length(j.body)::int8
               when numbers.digits > :max_bytes then numbers.digits
               else coalesce(octet_length(jsonb_send(j.payload))::int8, 0) + coalesce(octet_length(byteasend(j.body)), 0)
                   + coalesce(octet_length(jsonb_send(j.headers)), 0) + coalesce(octet_length(jsonb_send(j.options)), 0)
           end as bytes
    from {schema}.job j
    cross join lateral (
        select sum(scale(number::numeric)
                   + case
                         when abs(number::numeric) >= '1e100000'::numeric then 100000
                         when abs(number::numeric) >= '1e30000'::numeric then 30000
                         when abs(number::numeric) >= '1e10000'::numeric then 10000
                         when abs(number::numeric) >= '1e1000'::numeric then 1000
                         else 1
                     end) as digits
        from (values (j.payload), (j.headers), (j.options)) as document (content)
        cross join lateral jsonb_path_query(document.content, 'strict $.** ? (@.type() == "number")') as number
    ) as numbers
    where j.id = any (:ids::uuid[])
) as looked_at
where bytes > :max_bytes
