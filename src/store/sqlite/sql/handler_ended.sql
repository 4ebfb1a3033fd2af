-- Removes the handler of a cancelled job that has ended, of a node or of an external worker (null). A trigger releases what it held.
delete from jobwright_terminating_handler where job_id = :id and version = :version and node is :node
