-- Shown to people; nothing depends on it.
-- :node::int8, :kinds::text
update {schema}.node set left_alone = :kinds::text::jsonb where id = :node
