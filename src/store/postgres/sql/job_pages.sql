-- How many pages a walk over the jobs has. Zero if the server can't scan a range of them (before version 14): then one statement scans them
-- all.
select case when current_setting('server_version_num')::integer >= 140000
            then pg_relation_size('{schema}.job'::regclass) / current_setting('block_size')::int8
            else 0
       end
