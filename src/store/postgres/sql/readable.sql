-- Makes of what these rows hold what a claim would send, and sends none of it. It fails as the claim does.
select count(octet_length(jsonb_send(payload))) + count(octet_length(byteasend(body)))
       + count(octet_length(jsonb_send(headers))) + count(octet_length(jsonb_send(terms)))
from {schema}.job
where id = any ($1::uuid[])
