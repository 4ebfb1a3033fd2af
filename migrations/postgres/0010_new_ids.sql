-- Only roles that may send decide about ids. `new_ids` runs with its owner's rights and locks ids, so a mere reader could keep any id from being
-- stored for as long as its transaction is open, and the submissions behind it.
-- Roles that could send so far keep what they need. Others are granted it by hand, as docs/operations.md says.
revoke execute on function {schema}.new_ids(uuid[]) from public;
do $$
declare
    sender oid;
begin
    for sender in
        select distinct a.grantee
        from pg_catalog.pg_class c
        cross join lateral pg_catalog.aclexplode(c.relacl) a
        where c.oid = '{schema}.job'::regclass and a.privilege_type = 'INSERT' and a.grantee <> 0 and a.grantee <> c.relowner
    loop
        execute format('grant execute on function {schema}.new_ids(uuid[]) to %s', sender::regrole);
    end loop;
end
$$;
