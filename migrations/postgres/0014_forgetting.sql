-- What is forgotten when it is old: the order in which executors look for it (`history.audit`, `history.dead_letters`).

create index audit_at on {schema}.audit (at);
create index dead_letter_job_dead on {schema}.dead_letter_job (dead_at);
