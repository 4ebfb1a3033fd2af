-- Gates that opened and that no round has looked at since: few, and not for long, while there are executors.
select count(*), coalesce(max(:now - opens_at), 0) from jobwright_opening where opens_at <= :now
