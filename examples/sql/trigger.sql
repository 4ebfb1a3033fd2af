-- Sends a job from a trigger: whoever inserts an order, in whatever language, sends its job in the same transaction.
--
--   psql "$DATABASE_URL" -f examples/sql/trigger.sql
--
-- The schema `jobwright` must be there (`jobwright migrate`). Who inserts orders needs what docs/operations.md grants to a
-- sender; with `security definer` the owner of the function needs it instead, and those who insert need nothing.

create table orders (
    id       bigint generated always as identity primary key,
    customer text not null,
    express  boolean not null default false
);

create function send_order_placed() returns trigger
language plpgsql
as $$
begin
    -- Arguments by name. Left out here: due_at, ttl, max_attempts, headers, exclusive_group, unique_key, tenant, limit_key.
    -- An order that is rolled back takes its job with it.
    perform jobwright.send(
        'order-placed',
        jsonb_build_object('order', new.id, 'customer', new.customer),
        queue    => 'orders',
        priority => case when new.express then 10 else 0 end
    );
    return null;
end
$$;

create trigger send_order_placed
    after insert on orders
    for each row
    execute function send_order_placed();

-- send() never wakes an executor: a NOTIFY inside your transactions would serialise their commits. Executors find the job
-- within their poll_interval. Who can't wait that long says so after the commit, in a transaction of its own:
--
--   select jobwright.wake('orders');
