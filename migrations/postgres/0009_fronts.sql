-- How far the processes that drain a queue together have come, so that none of them walks over what the others took:
-- docs/adr/0042-processes-share-a-front.md. A sequence is the one place in PostgreSQL that all see change at once, and that leaves nothing
-- behind to be cleaned up, whatever snapshots are held. Sixteen, because each queue in a flood should have one of its own; which one
-- and whose value it holds is said in src/store/postgres/front.rs. They are hints: any value, also a lost one, is a right one.
create sequence {schema}.front_0 as bigint minvalue 0;
create sequence {schema}.front_1 as bigint minvalue 0;
create sequence {schema}.front_2 as bigint minvalue 0;
create sequence {schema}.front_3 as bigint minvalue 0;
create sequence {schema}.front_4 as bigint minvalue 0;
create sequence {schema}.front_5 as bigint minvalue 0;
create sequence {schema}.front_6 as bigint minvalue 0;
create sequence {schema}.front_7 as bigint minvalue 0;
create sequence {schema}.front_8 as bigint minvalue 0;
create sequence {schema}.front_9 as bigint minvalue 0;
create sequence {schema}.front_10 as bigint minvalue 0;
create sequence {schema}.front_11 as bigint minvalue 0;
create sequence {schema}.front_12 as bigint minvalue 0;
create sequence {schema}.front_13 as bigint minvalue 0;
create sequence {schema}.front_14 as bigint minvalue 0;
create sequence {schema}.front_15 as bigint minvalue 0;
