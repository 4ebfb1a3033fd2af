-- Shown to people; nothing depends on it.
update jobwright_node set left_alone = :kinds where id = :node
