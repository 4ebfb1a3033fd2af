-- Decides about all ids of a batch that is written in several statements, in their order: decided statement by statement, two batches could
-- wait for each other in a circle.
select count(*) from {schema}.new_ids($1)
