-- What a monitor compares with what it saw before. No clock is asked: one that is set would make all of them look dead, or none.
select id, beat, (extract(epoch from lease) * 1000000)::int8, dead_at is not null from {schema}.node
