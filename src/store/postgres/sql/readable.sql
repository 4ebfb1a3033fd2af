-- Makes of what these rows hold what a claim would send, and sends none of it. It fails as the claim does.
select coalesce(sum(octet_length(jsonb_send(payload))::int8 + coalesce(octet_length(jsonb_send(headers)), 0)
                    + coalesce(octet_length(jsonb_send(terms)), 0)), 0)::int8
from {schema}.job
where id = any ($1::uuid[])
