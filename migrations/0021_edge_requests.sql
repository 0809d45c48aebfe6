-- Requests that edge nodes refused, warned about, limited or failed, for some days. Partitioned by the day of their UUIDv7,
-- so that a day past its retention is dropped and not deleted row by row. No foreign keys: a request names what decided
-- it also after that was deleted, as evidence.
create table edge_requests (
  account_id uuid not null,
  -- The request's X-Request-Id.
  id uuid not null,
  created_at timestamptz(3) not null,
  node text not null,
  edge_kind text not null,
  edge_id uuid not null,
  route_id uuid,
  source_ip inet not null,
  protocol text not null,
  method text,
  host text,
  path text,
  status_code int,
  duration_ms bigint not null,
  bytes_in bigint not null,
  bytes_out bigint not null,
  upstream text,
  outcome text not null,
  reason text,
  ip_restriction_id uuid,
  ip_policy_id uuid,
  ip_policy_rule_id uuid,
  generation bigint not null,
  trace text,
  primary key (account_id, id),
  constraint edge_requests_edge_kind check (edge_kind in ('tcp', 'https')),
  constraint edge_requests_node_bytes check (octet_length(node) between 1 and 255),
  constraint edge_requests_protocol_bytes check (octet_length(protocol) between 1 and 20),
  constraint edge_requests_method_bytes check (octet_length(method) <= 32),
  constraint edge_requests_host_bytes check (octet_length(host) <= 255),
  constraint edge_requests_path_bytes check (octet_length(path) <= 1024),
  constraint edge_requests_upstream_bytes check (octet_length(upstream) <= 100),
  constraint edge_requests_outcome_bytes check (octet_length(outcome) between 1 and 20),
  constraint edge_requests_reason_bytes check (octet_length(reason) <= 50),
  constraint edge_requests_trace_bytes check (octet_length(trace) <= 32)
) partition by range (id);
create index edge_requests_of_edge on edge_requests (account_id, edge_id, id);
create index edge_requests_of_route on edge_requests (account_id, route_id, id) where route_id is not null;
create index edge_requests_of_source on edge_requests (account_id, source_ip, id);
create index edge_requests_of_outcome on edge_requests (account_id, outcome, id);
-- Takes what no day's partition does: what a node delivers days later, when nobody had made the partition of that day.
create table edge_requests_default partition of edge_requests default;

-- How many were kept and how many were not, by account, hour and node: the quota is counted here, and the API tells it.
create table edge_request_counts (
  account_id uuid not null,
  hour timestamptz(3) not null,
  node text not null,
  kept int not null default 0,
  dropped bigint not null default 0,
  primary key (account_id, hour, node),
  constraint edge_request_counts_node_bytes check (octet_length(node) between 1 and 255)
);
create index edge_request_counts_age on edge_request_counts (hour);

-- The last batch of each node. A node sends a batch again when it got no answer: it must not be counted twice.
create table edge_request_batches (
  node text primary key,
  batch_id uuid not null,
  received_at timestamptz(3) not null default now(),
  constraint edge_request_batches_node_bytes check (octet_length(node) between 1 and 255)
);

-- The least UUIDv7 of a day's first moment.
create function first_id_of_day(day date) returns uuid language sql immutable as $$
  select (lpad(to_hex((extract(epoch from day::timestamp at time zone 'UTC') * 1000)::bigint), 12, '0')
    || '70008000000000000000')::uuid
$$;

-- Like those of the audit, for a role that owns nothing: see add_audit_partition(). True when it made one. A day whose
-- requests are in the default partition already stays there: it is gone with the retention.
create function add_request_partition(day date) returns boolean language plpgsql security definer as $$
declare
  today date := (now() at time zone 'UTC')::date;
  part text := 'edge_requests_' || to_char(day, 'YYYY_MM_DD');
begin
  if not audit_is_owners() and day not between today - 1 and today + 4 then
    raise exception 'the partition of % is not due', day using errcode = 'insufficient_privilege';
  end if;
  perform pg_advisory_xact_lock(7204113005);
  if to_regclass(part) is not null then return false; end if;
  if exists (select from edge_requests_default where id >= first_id_of_day(day) and id < first_id_of_day(day + 1)) then
    return false;
  end if;
  execute format('create table %I partition of edge_requests for values from (%L) to (%L)',
    part, first_id_of_day(day), first_id_of_day(day + 1));
  return true;
end
$$;

-- Drops the oldest day before `first_kept`, or some of what the default partition has of such days, and returns the name of
-- what it was in; null when there is nothing left. Others than the owner cannot drop today's.
create function drop_request_partition(first_kept date) returns text language plpgsql security definer as $$
declare
  part text;
begin
  if not audit_is_owners() then
    first_kept := least(first_kept, (now() at time zone 'UTC')::date);
  end if;
  perform pg_advisory_xact_lock(7204113005);
  select c.relname into part from pg_inherits i join pg_class c on c.oid = i.inhrelid
  where i.inhparent = 'edge_requests'::regclass and c.relname ~ '^edge_requests_\d{4}_\d\d_\d\d$'
    and c.relname < 'edge_requests_' || to_char(first_kept, 'YYYY_MM_DD')
  order by c.relname limit 1;
  if part is not null then
    execute format('drop table %I', part);
    return part;
  end if;
  delete from edge_requests_default where ctid = any(array(
    select ctid from edge_requests_default where id < first_id_of_day(first_kept) limit 5000));
  return case when found then 'edge_requests_default' end;
end
$$;

do $$ begin
  execute format('alter function add_request_partition(date) set search_path = %I, pg_temp', current_schema());
  execute format('alter function drop_request_partition(date) set search_path = %I, pg_temp', current_schema());
end $$;
revoke execute on function add_request_partition(date), drop_request_partition(date) from public;
