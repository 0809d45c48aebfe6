-- locks: none
-- The keys that sign accounts and users for NATS in operator mode, all of them encrypted with a key that is not in the
-- database. One row; none while NATS has its users in a configuration file.
create table nats_operator (
  one boolean primary key default true check (one),
  -- For the configuration of nats-server. The key that has signed it is not in the database.
  jwt text not null,
  -- Nonce, ciphertext and tag.
  sealed_keys bytea not null,
  secrets_key_id text not null,
  created_at timestamptz(3) not null default now()
);

-- The nodes that have joined, those that were revoked included: NATS must not let them in again.
create table fleet_nodes (
  nats_account text primary key,
  name text not null,
  nats_user text not null,
  -- To which private keys of certificates are encrypted.
  node_key text not null,
  joined_at timestamptz(3) not null default now(),
  revoked_at timestamptz(3)
);
create unique index fleet_nodes_name on fleet_nodes (name) where revoked_at is null;

-- Each lets one node join.
create table join_tokens (
  token_hash bytea primary key,
  -- Null: the node says its name.
  name text,
  created_at timestamptz(3) not null default now(),
  expires_at timestamptz(3) not null,
  -- The node that has joined with it.
  used_by text,
  last_refused_at timestamptz(3),
  constraint join_tokens_used_by_fk foreign key (used_by) references fleet_nodes
);

-- What operators and nodes did to the fleet. It belongs to no account, so it is not in the audit of one.
create table fleet_events (
  id bigint generated always as identity primary key,
  at timestamptz(3) not null default now(),
  operation text not null,
  node text,
  source_ip inet,
  detail text
);
