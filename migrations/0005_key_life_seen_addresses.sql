-- Null: the key never ends by itself. Decided where the key is looked up, by this database's clock.
alter table api_keys add column expires_at timestamptz(3);
alter table api_keys add column rotated_at timestamptz(3);

-- The token that a rotation replaced, for as long as it still works. At most one for each key: two tokens live at a time.
-- A table of its own: few keys have one, and an index on the table of all keys would lock it while it is built.
create table api_key_previous_tokens (
  account_id uuid not null,
  api_key_id uuid not null,
  token_hash bytea not null,
  expires_at timestamptz(3) not null,
  -- Only uses since the rotation: who still has to change over.
  last_used_at timestamptz(0),
  last_used_ip inet,
  primary key (account_id, api_key_id),
  foreign key (account_id, api_key_id) references api_keys on delete cascade,
  constraint api_key_previous_tokens_hash_unique unique (token_hash),
  constraint api_key_previous_tokens_hash_bytes check (octet_length(token_hash) = 32)
);
create index api_key_previous_tokens_age on api_key_previous_tokens (last_used_at) where last_used_ip is not null;

-- When each key was last used, to the hour. Not columns of api_keys: a use must never wait for, or undo, a change of the key.
create table api_key_uses (
  account_id uuid not null,
  api_key_id uuid not null,
  last_used_at timestamptz(0) not null,
  last_used_ip inet,
  primary key (account_id, api_key_id),
  foreign key (account_id, api_key_id) references api_keys on delete cascade
);
create index api_key_uses_age on api_key_uses (last_used_at) where last_used_ip is not null;

-- From where each account was used lately, to the hour: what a change of an IP policy would mean for the people behind
-- these addresses. Personal data, kept for about a week.
create table seen_addresses (
  account_id uuid not null references accounts,
  type text not null,
  ip inet not null,
  first_seen_at timestamptz(0) not null,
  last_seen_at timestamptz(0) not null,
  primary key (account_id, type, ip),
  constraint seen_addresses_type check (type in ('dashboard', 'api', 'agent', 'endpoints'))
);
create index seen_addresses_newest on seen_addresses (account_id, type, last_seen_at);
create index seen_addresses_age on seen_addresses (last_seen_at);

-- Raised after a restore: what stands in the bucket under a lower generation is sent once more, because nodes may know of
-- something newer that the restored database does not have.
alter table publisher_state add column resend_below bigint not null default 0;
