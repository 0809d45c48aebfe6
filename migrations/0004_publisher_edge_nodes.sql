-- The keys that records for edges are signed with. One is active; the others are kept so that a rotation can be undone.
create table signing_keys (
  public_key text primary key,
  private_key text not null,
  active boolean not null,
  created_at timestamptz(3) not null default now()
);
create unique index signing_keys_one_active on signing_keys (active) where active;

-- Up to which generation everything has been published. One row.
create table publisher_state (
  one boolean primary key default true check (one),
  cursor bigint not null,
  -- When the bucket was made that the cursor speaks of: another one holds other records, or none.
  bucket_created text
);
insert into publisher_state (cursor) values (0);

create table edge_nodes (
  name text primary key,
  version text not null,
  applied_generation bigint not null,
  records bigint not null,
  refusals json not null,
  started_at timestamptz(3) not null,
  last_seen_at timestamptz(3) not null
);

-- What expires next must be sent to edges when it does.
create index ip_policy_rules_expiry on ip_policy_rules (expires_at) where expires_at is not null;
-- Edge nodes report by the restriction's id alone.
create unique index ip_restrictions_id on ip_restrictions (id);
