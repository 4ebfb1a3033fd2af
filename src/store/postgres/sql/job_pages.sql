-- How many pages a walk over the jobs has. Zero where the server can't read a range of them (before version 14): then one statement walks
-- over all.
select case when current_setting('server_version_num')::integer >= 140000
            then pg_relation_size('{schema}.job'::regclass) / current_setting('block_size')::int8
            else 0
       end
