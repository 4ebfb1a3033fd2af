-- Like remove.sql, for a job that holds an exclusive group ($4). If others wait for the group, the node holds it from the commit on by a
-- lease ($5), and goes on with them (complete_and_claim_next.sql). The number of the claim ($6) identifies a lease whose answer got lost.
-- Otherwise the end of the job releases the group.
-- A lease is made as a claim is: the statement locks the node, and a dead node gets none.
with done as (
    delete from {schema}.job
    where id = $2 and version = $3 and lock_owner = $1
    returning id
--{all} , seq, kind, queue, attempt, created_at, claimed_at, options ->> 'tenant' as tenant
),
--{all} remembered as (
--{all}     insert into {schema}.history (job_id, seq, kind, queue, outcome, attempt, created_at, started_at, node, tenant)
--{all}     select id, seq, kind, queue, 'done', attempt, created_at, claimed_at, $1, tenant from done
--{all} ),
leased as (
    update {schema}.permit
    set job_id = $5, node = $1, version = $6
    where job_id = (select id from done) and key = $4 and node is null
      and (select {schema}.hold_node($1)) is not null
      and (select exists (select from {schema}.job where blocked_on = $4 and share = '' and lock_owner is null))
    returning key
)
select id, pg_current_xact_id()::text, exists (select from leased) from done
