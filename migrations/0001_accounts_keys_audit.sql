-- Every table that belongs to an account has the account first in its primary key: a list reads one range of it,
-- and the data can be spread by account without changing a query.

create table accounts (
  id uuid primary key,
  name text not null,
  -- Raised in the same transaction as any change of the account's IP policies, rules or restrictions.
  policy_revision bigint not null default 0,
  created_at timestamptz(3) not null default now(),
  constraint accounts_name_unique unique (name),
  constraint accounts_name_bytes check (octet_length(name) between 1 and 255)
);

-- Users and bots in one table, because a key belongs to either and the foreign key must hold for both.
create table principals (
  account_id uuid not null references accounts,
  id uuid not null,
  kind text not null,
  name text not null,
  email text,
  role text not null,
  active boolean not null default true,
  created_at timestamptz(3) not null default now(),
  primary key (account_id, id),
  constraint principals_name_bytes check (octet_length(name) between 1 and 255),
  constraint principals_email_bytes check (octet_length(email) <= 255),
  constraint principals_kind check (
    (kind = 'user' and email is not null and role in ('admin', 'member')) or
    (kind = 'bot' and email is null and role = 'member')
  )
);
create unique index principals_email_unique on principals (account_id, lower(email));

create table api_keys (
  account_id uuid not null references accounts,
  id uuid not null,
  owner_id uuid not null,
  -- Copied from the owner, whose kind never changes, so that a list need not look up every owner.
  owner_kind text not null,
  token_hash bytea not null,
  description text,
  metadata text,
  created_at timestamptz(3) not null default now(),
  primary key (account_id, id),
  constraint api_keys_owner_fk foreign key (account_id, owner_id) references principals,
  constraint api_keys_token_hash_bytes check (octet_length(token_hash) = 32),
  constraint api_keys_description_bytes check (octet_length(description) between 1 and 255),
  constraint api_keys_metadata_bytes check (octet_length(metadata) between 1 and 4096)
);
create unique index api_keys_token_hash_unique on api_keys (token_hash);
create index api_keys_owner on api_keys (account_id, owner_id);

-- Partitioned by id, which is a UUIDv7 and so begins with the time: paging by id reads the newest partition first,
-- and forgetting a month is dropping one. The ids are kept as they are shown, because they are of many kinds.
create table audit_events (
  account_id uuid not null,
  id uuid not null,
  created_at timestamptz(3) not null default now(),
  operation text not null,
  operation_id text not null,
  owner_id text,
  api_key_id text,
  source_ip inet,
  resource_id text not null,
  before jsonb,
  after jsonb,
  primary key (account_id, id)
) partition by range (id);
create index audit_events_resource on audit_events (account_id, resource_id, id);
create index audit_events_owner on audit_events (account_id, owner_id, id);
create index audit_events_operation on audit_events (account_id, operation, id);
-- Takes what no month's partition does, so that a forgotten partition never stops a change.
create table audit_events_default partition of audit_events default;
