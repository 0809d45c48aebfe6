create table backends (
  account_id uuid not null references accounts,
  id uuid not null,
  description text,
  metadata text,
  -- host:port, the host in lower case
  address text not null,
  tls_enabled boolean not null,
  created_at timestamptz(3) not null default now(),
  primary key (account_id, id),
  constraint backends_address_bytes check (octet_length(address) between 3 and 300),
  constraint backends_description_bytes check (octet_length(description) between 1 and 255),
  constraint backends_metadata_bytes check (octet_length(metadata) between 1 and 4096)
);

-- TCP edges, HTTPS edges and the routes of HTTPS edges in one table, because modules hang on edges and routes alike.
create table edges (
  account_id uuid not null references accounts,
  id uuid not null,
  kind text not null,
  -- Of a route: its HTTPS edge.
  parent_id uuid,
  match_type text,
  match text,
  description text,
  metadata text,
  created_at timestamptz(3) not null default now(),
  primary key (account_id, id),
  foreign key (account_id, parent_id) references edges on delete cascade,
  constraint edges_match_unique unique (account_id, parent_id, match_type, match),
  constraint edges_kind check (
    (kind in ('tcp', 'https') and parent_id is null and match_type is null and match is null) or
    (kind = 'route' and parent_id is not null and match_type in ('exact_path', 'path_prefix') and match like '/%')
  ),
  constraint edges_match_bytes check (octet_length(match) <= 1024),
  constraint edges_description_bytes check (octet_length(description) between 1 and 255),
  constraint edges_metadata_bytes check (octet_length(metadata) between 1 and 4096)
);
create index edges_of_kind on edges (account_id, kind, id) where parent_id is null;
create index edges_of_parent on edges (account_id, parent_id, id) where parent_id is not null;

-- A hostport belongs to one edge in the whole installation: the only key here that is not an account's.
create table hostports (
  hostport text primary key,
  account_id uuid not null,
  edge_id uuid not null,
  position int not null,
  foreign key (account_id, edge_id) references edges on delete cascade
);
create index hostports_of_edge on hostports (account_id, edge_id);

create table edge_modules (
  account_id uuid not null,
  edge_id uuid not null,
  module text not null,
  enabled boolean not null,
  -- json, not jsonb: it comes back exactly as it was sent, the order of its keys included.
  settings json not null,
  backend_id uuid,
  primary key (account_id, edge_id, module),
  foreign key (account_id, edge_id) references edges on delete cascade,
  constraint edge_modules_backend_fk foreign key (account_id, backend_id) references backends
);
create index edge_modules_of_backend on edge_modules (account_id, backend_id) where backend_id is not null;

create table edge_module_policies (
  account_id uuid not null,
  edge_id uuid not null,
  module text not null,
  ip_policy_id uuid not null,
  position int not null,
  primary key (account_id, edge_id, module, ip_policy_id),
  foreign key (account_id, edge_id, module) references edge_modules on delete cascade,
  constraint edge_module_policies_ip_policy_fk foreign key (account_id, ip_policy_id) references ip_policies
);
create index edge_module_policies_of_policy on edge_module_policies (account_id, ip_policy_id);

-- What edge nodes must be told, in the transaction that changed it. The publisher reads it in order of generation.
create table outbox (
  generation bigint not null,
  account_id uuid not null,
  -- What changed, by the name of the record that tells it, such as tcp.edgtcp_….
  key text not null,
  created_at timestamptz(3) not null default now(),
  primary key (generation, key)
);
create sequence outbox_generations;
-- last_value means 'the last one given out' only after the first call.
select nextval('outbox_generations');

-- Transactions commit in another order than they take their generations. Before a transaction takes one it leaves a mark
-- that ends with it: an advisory lock on the last generation given out, which says 'mine will be higher than this'. A
-- reader that goes only up to the lowest mark misses nobody: whoever is below has ended. Nobody waits for anybody.
create function next_generation() returns bigint language plpgsql as $$
declare
  floor bigint;
begin
  select last_value into floor from outbox_generations;
  perform pg_advisory_xact_lock_shared((71::bigint << 48) | floor);
  return nextval('outbox_generations');
end
$$;

-- The highest generation up to which every transaction has ended. The order of the two reads matters: whoever took a
-- generation up to `reached` has left its mark before `reached` was read, so the marks show it, or it has ended.
create function settled_generation() returns bigint language plpgsql volatile as $$
declare
  reached bigint;
  lowest_mark bigint;
begin
  select last_value into reached from outbox_generations;
  select min(((classid::bigint & 65535) << 32) | objid::bigint) into lowest_mark
  from pg_locks
  where locktype = 'advisory' and objsubid = 1 and classid::bigint >> 16 = 71
    and database = (select oid from pg_database where datname = current_database());
  return least(reached, coalesce(lowest_mark, reached));
end
$$;

-- Answers of POST requests with an Idempotency-Key, for a day.
create table idempotency_keys (
  account_id uuid not null,
  owner_id text not null,
  key text not null,
  operation text not null,
  request_hash bytea not null,
  response text,
  generation bigint,
  created_at timestamptz(3) not null default now(),
  primary key (account_id, owner_id, key)
);
create index idempotency_keys_age on idempotency_keys (created_at);
