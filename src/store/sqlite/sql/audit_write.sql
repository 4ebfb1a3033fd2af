-- Runs in the transaction of the action.
insert into jobwright_audit (at, who, action, what) values (:at, :who, :action, :what)
