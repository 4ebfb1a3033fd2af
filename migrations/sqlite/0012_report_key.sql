-- What the tokens are made with that external workers send back with their reports: 32 random bytes.

create table jobwright_report_key (
    only_one integer primary key default 1 check (only_one = 1),
    key      blob not null check (length(key) = 32)
) strict;
insert into jobwright_report_key (key) values (randomblob(32));
