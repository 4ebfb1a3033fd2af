-- Whether any lease has run out. Checked first, because the answer is nearly always no. expire_external.sql also needs the job table, and
-- would wait on one of the engine's few connections for any lock on that.
select exists (select from {schema}.external_job where lease_until <= statement_timestamp())
    or exists (select from {schema}.terminating_handler where until <= statement_timestamp())
