-- How upstreams are, as edge nodes see them: the latest state of each address. Nodes report it again every few minutes,
-- so what is older than that is no longer known, and nothing is lost with the table.
create table backend_health (
  account_id uuid not null,
  backend_id uuid not null,
  node text not null,
  address inet not null,
  port int not null,
  status text not null,
  reason text,
  since timestamptz(3) not null,
  -- Of 'failing': when a request last failed.
  last_failed_at timestamptz(3),
  reported_at timestamptz(3) not null,
  primary key (account_id, backend_id, node, address, port),
  constraint backend_health_backend_fk foreign key (account_id, backend_id)
    references backends (account_id, id) on delete cascade,
  constraint backend_health_status check (status in ('up', 'down', 'failing')),
  constraint backend_health_node_bytes check (octet_length(node) between 1 and 255),
  constraint backend_health_reason_bytes check (octet_length(reason) between 1 and 200),
  constraint backend_health_port check (port between 1 and 65535)
);
create index backend_health_age on backend_health (reported_at);
-- Edge nodes report by the backend's id alone.
create unique index backends_id on backends (id);
