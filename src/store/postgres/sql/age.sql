-- Raises long-waiting jobs of one queue (:queue), waiting or blocked on its key (:blocked_on), by one priority for every :aging_us
-- microseconds of waiting.
-- Only the oldest :limit of each priority are considered: they are next in line, and the rows after them move up when they are gone. The
-- existing priorities are found by stepping through the index, so the cost does not depend on the number of waiting jobs.
-- `aged` records how much was already added, up to the best priority. So the raise can be taken back if the clock turns out to have been
-- ahead and no job has waited that long.
-- What was written by hand may not keep the others from being raised: a count that is none is zero, a job from ever ago has waited for ten
-- years, and one without an end of ever has not waited.
-- Of the jobs, only those in :ids (null = all).
-- :queue::text, :aging_us::int8, :limit::int8, :blocked_on::text, :ids::uuid[]
with recursive {old},
raised as (
    update {schema}.job j
    set rank = least(j.rank - (old.steps - old.aged), 32767)::int2,
        options = coalesce(j.options, '{}') || jsonb_build_object('aged', old.steps)
    from old
    where {briefly} and j.ctid = old.tid and old.steps <> old.aged and (:ids::uuid[] is null or old.id = any (:ids::uuid[])) and coalesce(jsonb_typeof(j.options), 'object') = 'object'
    returning j.seq
)
select count(*) from raised
