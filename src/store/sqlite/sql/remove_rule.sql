-- Removes a rule that sets nothing.
delete from jobwright_rule where scope = :scope and name = :name
