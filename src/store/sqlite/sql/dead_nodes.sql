-- All that are dead and not forgotten, so that a monitor finishes what one that died itself began.
select id from jobwright_node where dead_at is not null order by id
