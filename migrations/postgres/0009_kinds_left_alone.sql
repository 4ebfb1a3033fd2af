-- The kinds that a node leaves alone at the moment because it can't run them, with the reasons: an object of texts. It is shown to people, and
-- nothing depends on it. Nodes of earlier builds leave it empty.
alter table {schema}.node add column left_alone jsonb;
comment on column {schema}.node.left_alone is 'kinds that it can not run at the moment, and why; null = none';
