-- One action may take several transactions; each adds what it did.
update jobwright_audit set counts = :counts where id = :id
