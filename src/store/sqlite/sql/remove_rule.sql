-- One that asks for nothing.
delete from jobwright_rule where scope = :scope and name = :name
