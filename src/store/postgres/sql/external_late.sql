-- Whether any lease has run out. Asked first, because the answer is nearly always no, and expire_external.sql also needs the
-- job table: it would wait, with one of the engine's few connections, for whoever has locked that.
select exists (select from {schema}.external_job where lease_until <= statement_timestamp())
    or exists (select from {schema}.ending where until <= statement_timestamp())
