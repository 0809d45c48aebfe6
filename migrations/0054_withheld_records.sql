-- locks: api_keys
-- Records that the publisher cannot send, because they are too large for NATS or a private key in them cannot be read. Edge nodes
-- have an older version, or none. `since` is the generation of the first change that they lack.
create table withheld_records (
  key text primary key,
  since bigint not null,
  reason text not null
);

-- api_keys_of_owner begins with the same columns.
drop index api_keys_owner;
