-- The kinds that a node leaves alone at the moment because it can't run them, with the reasons: an object of texts. It is shown to people, and
-- nothing depends on it. Nodes of earlier builds leave it empty.
alter table jobwright_node add column left_alone text;
