-- Who is signed in to the dashboard. A session ends with its key, because the row goes with it.
create table dashboard_sessions (
  account_id uuid not null,
  id uuid not null,
  api_key_id uuid not null,
  -- Of the token that was shown: when the key gets another one, the session must not outlive this one.
  token_hash bytea not null,
  secret_hash bytea not null,
  created_at timestamptz(3) not null default now(),
  last_used_at timestamptz(3) not null default now(),
  expires_at timestamptz(3) not null,
  primary key (account_id, id),
  constraint dashboard_sessions_api_key_fk foreign key (account_id, api_key_id) references api_keys on delete cascade,
  constraint dashboard_sessions_hash_bytes check (octet_length(secret_hash) = 32 and octet_length(token_hash) = 32)
);
create unique index dashboard_sessions_secret_hash_unique on dashboard_sessions (secret_hash);
create index dashboard_sessions_of_key on dashboard_sessions (account_id, api_key_id, id);
create index dashboard_sessions_age on dashboard_sessions (expires_at);

-- The session that made a change, as it is shown; null for a key's token and for commands on the server.
alter table audit_events add column dashboard_session_id text;

-- What happened to traffic at each TCP edge and route, counted like ip_restriction_counts: `by_module` when it was the
-- edge's or route's own policies that refused, else by a restriction of the account, which has it in its counts too.
create table edge_counts (
  account_id uuid not null,
  edge_id uuid not null,
  hour timestamptz(0) not null,
  source_ip inet not null,
  outcome text not null,
  by_module boolean not null,
  count bigint not null,
  last_at timestamptz(3) not null,
  primary key (account_id, edge_id, hour, source_ip, outcome, by_module),
  foreign key (account_id, edge_id) references edges on delete cascade,
  constraint edge_counts_outcome check (outcome in ('refused', 'warned'))
);
create index edge_counts_age on edge_counts (hour);
-- Edge nodes report by the edge's or route's id alone.
create unique index edges_id on edges (id);
