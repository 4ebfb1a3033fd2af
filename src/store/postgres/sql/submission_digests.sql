-- What is on record for ids that were submitted before. A statement after receive.sql, so that it sees what that waited for.
select id, digest from {schema}.submission where id = any ($1::uuid[])
