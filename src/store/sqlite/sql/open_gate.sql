-- Somebody is to look at what waits behind it. One more that says the same does no harm.
insert into jobwright_opening (key) values (:key)
