-- locks: none
-- Counts how often the key was replaced that encrypts private keys on their way to nodes. The key itself follows from the
-- operator's secrets key and this number, so a revoked node cannot decrypt what is sent after it was revoked.
create table delivery_key (
  one boolean primary key default true check (one),
  epoch bigint not null
);
insert into delivery_key (epoch) values (0);
