-- What ended at the edges, by minute for a day and by hour for 90 days: counts, and latencies in buckets. One row for each
-- node, TCP edge or route, and backend. Without foreign keys: a key would make each write of counts wait for changes of
-- edges, and a route that was deleted had its traffic all the same. The zero id stands for none, so that it can be part of
-- a key: the rows without an edge have what an account has beyond the bound (keep.ts).
-- locks: none
create table traffic_minutes (
  account_id uuid not null,
  at timestamptz(0) not null,
  node text not null,
  edge_id uuid not null,
  route_id uuid not null,
  backend_id uuid not null,
  -- The prefixes of their public ids, because they may be gone; empty for none.
  edge_kind text not null,
  backend_kind text not null,
  requests bigint not null,
  refused bigint not null,
  limited bigint not null,
  backend_5xx bigint not null,
  unreachable bigint not null,
  no_response bigint not null,
  timeout bigint not null,
  edge bigint not null,
  client bigint not null,
  -- Each is bucket << 40 | count, ascending.
  latencies bigint[] not null,
  primary key (account_id, at, node, edge_id, route_id, backend_id),
  constraint traffic_minutes_node_bytes check (octet_length(node) between 1 and 255)
) with (fillfactor = 60);
create index traffic_minutes_age on traffic_minutes (at);

create table traffic_hours (like traffic_minutes including all) with (fillfactor = 60);
alter index traffic_hours_at_idx rename to traffic_hours_age;

-- Adds up latencies of the same buckets.
create function add_latencies(a bigint[], b bigint[]) returns bigint[] language sql immutable parallel safe as $$
  select coalesce(array_agg((bucket << 40) + counted order by bucket), '{}') from (
    select latency >> 40 as bucket, sum(latency & ((1::bigint << 40) - 1))::bigint as counted
    from unnest(a || b) latency group by 1) added
$$;

-- The last counts of each agent that were added, so that counts which a node sends again are not added again.
create table traffic_batches (
  node text not null,
  sender uuid not null,
  batch bigint not null,
  received_at timestamptz(3) not null,
  primary key (node, sender),
  constraint traffic_batches_node_bytes check (octet_length(node) between 1 and 255)
);

-- Requests of which nodes know nothing, by the hour in which they said so.
create table traffic_losses (
  node text not null,
  at timestamptz(0) not null,
  requests bigint not null,
  primary key (node, at),
  constraint traffic_losses_node_bytes check (octet_length(node) between 1 and 255)
);

-- Nothing was counted before.
create table traffic_counting (
  one boolean primary key default true check (one),
  began_at timestamptz(3) not null default now()
);
insert into traffic_counting default values;

create aggregate sum_latencies(bigint[]) (sfunc = add_latencies, stype = bigint[], initcond = '{}');
