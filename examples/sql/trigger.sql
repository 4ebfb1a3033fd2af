-- Sends a job from a trigger: any program that inserts an order, in any language, sends its job in the same transaction.
--
--   psql "$DATABASE_URL" -f examples/sql/trigger.sql
--
-- The schema `jobwright` must exist (`jobwright migrate`). The role that inserts orders needs what docs/operations.md grants to a
-- sender. With `security definer` the owner of the function needs these rights instead, and the inserting role needs none.

create table orders (
    id       bigint generated always as identity primary key,
    customer text not null,
    express  boolean not null default false
);

create function send_order_placed() returns trigger
language plpgsql
as $$
begin
    -- Arguments are given by name. Not used here: due_at, ttl, max_attempts, headers, exclusive_group, unique_key, tenant, limit_key.
    -- If the order is rolled back, so is its job.
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
-- within their poll_interval. A sender that can't wait that long wakes them after the commit, in a separate transaction:
--
--   select jobwright.wake('orders');
