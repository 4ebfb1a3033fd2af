-- Who steered what: one row for each action of an operator, written in the transaction of what it did. what: a filter and a change,
-- a rule, or a node. counts: how many jobs it touched, by the state they were in.
create table jobwright_audit (
    id     integer primary key,
    at     integer not null,
    who    text not null,
    action text not null,
    what   text not null,
    counts text not null default '{}'
) strict;
