-- What a monitor compares with its earlier observation. No clock is used: a clock that is changed would make all nodes look dead, or none.
select id, heartbeats, (extract(epoch from lease)::float8 * 1000000::float8)::int8 as lease_us, dead_at is not null as dead from {schema}.node
