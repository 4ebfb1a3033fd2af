-- Shown in the status; nothing depends on it.
update jobwright_node set broker = :broker where id = :node
