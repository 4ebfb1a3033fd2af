-- What is forgotten when it is old: the order in which executors look for it (`history.audit`, `history.dead_letters`).

create index jobwright_audit_at on jobwright_audit (at);
create index jobwright_dead_letter_job_dead on jobwright_dead_letter_job (dead_at);
