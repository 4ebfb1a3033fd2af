-- Which of these ids, chosen by their senders, exist already. No `exists`: planned on empty tables, it becomes a hash of all existing ids.
-- :ids::uuid[]
select m.id
from unnest(:ids::uuid[]) as m(id)
where (select t.id from {schema}.job t where t.id = m.id limit 1) is not null
   or (select t.id from {schema}.timer_job t where t.id = m.id limit 1) is not null
   or (select t.id from {schema}.suspended_job t where t.id = m.id limit 1) is not null
   or (select t.id from {schema}.dead_letter_job t where t.id = m.id limit 1) is not null
   or (select t.id from {schema}.external_job t where t.id = m.id limit 1) is not null
