-- The tables of the shop; those of jobwright are made by `jobwright migrate`.
create table if not exists customer_order (
    id       bigint generated always as identity primary key,
    address  text not null,
    cents    integer not null check (cents > 0),
    paid     boolean not null default false,
    reminded integer not null default 0
);
create table if not exists invoice (
    order_id bigint primary key references customer_order,
    cents    integer not null
);
