-- An action may take several transactions; each updates the counts.
update jobwright_audit set counts = :counts where id = :id
