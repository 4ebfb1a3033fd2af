-- Which of these ids, which their senders chose, are there already.
select m.id
from unnest($1::uuid[]) as m(id)
where exists (select from {schema}.job t where t.id = m.id)
   or exists (select from {schema}.timer_job t where t.id = m.id)
   or exists (select from {schema}.suspended_job t where t.id = m.id)
   or exists (select from {schema}.dead_letter_job t where t.id = m.id)
   or exists (select from {schema}.external_job t where t.id = m.id)
