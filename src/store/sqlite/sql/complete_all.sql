-- Removes finished jobs, each only if this claim still owns it. One statement removes all of them: a statement that may fire a trigger
-- keeps a journal of the pages it changes, and row by row that cost more than the removal.
delete from jobwright_job
where {still_owned}
returning id
