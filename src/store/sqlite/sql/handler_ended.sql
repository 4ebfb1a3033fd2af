-- The handler of a cancelled job that has ended, of a node, or of an external worker (null). What it held is freed by a trigger.
delete from jobwright_ending where job_id = :id and version = :version and node is :node
