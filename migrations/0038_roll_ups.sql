-- What reports show of counts, so that they read what they show and not every address of a month. Whoever adds counts adds
-- to these in the same statement; retention takes from them what it deletes. docs/scale.md says what for.
create table ip_restriction_hours (
  account_id uuid not null,
  hour timestamptz(0) not null,
  ip_restriction_id uuid not null,
  outcome text not null,
  count bigint not null,
  -- By hour first: an overview asks for all restrictions of an account since an hour.
  primary key (account_id, hour, ip_restriction_id, outcome),
  constraint ip_restriction_hours_restriction_fk
    foreign key (account_id, ip_restriction_id) references ip_restrictions on delete cascade,
  constraint ip_restriction_hours_outcome check (outcome in ('refused', 'warned'))
);
create index ip_restriction_hours_of_restriction on ip_restriction_hours (account_id, ip_restriction_id);

-- Each address once. Personal data, kept for as long as one of its counts is.
create table ip_restriction_addresses (
  account_id uuid not null,
  ip_restriction_id uuid not null,
  outcome text not null,
  source_ip inet not null,
  count bigint not null,
  last_at timestamptz(3) not null,
  last_api_key_id text,
  primary key (account_id, ip_restriction_id, outcome, source_ip),
  constraint ip_restriction_addresses_restriction_fk
    foreign key (account_id, ip_restriction_id) references ip_restrictions on delete cascade,
  constraint ip_restriction_addresses_outcome check (outcome in ('refused', 'warned'))
);
create index ip_restriction_addresses_latest on ip_restriction_addresses
  (account_id, ip_restriction_id, outcome, last_at, source_ip);

-- The same for TCP edges and routes.
create table edge_hours (
  account_id uuid not null,
  hour timestamptz(0) not null,
  edge_id uuid not null,
  outcome text not null,
  by_module boolean not null,
  count bigint not null,
  last_at timestamptz(3) not null,
  primary key (account_id, hour, edge_id, outcome, by_module),
  constraint edge_hours_edge_fk foreign key (account_id, edge_id) references edges on delete cascade,
  constraint edge_hours_outcome check (outcome in ('refused', 'warned'))
);
create index edge_hours_of_edge on edge_hours (account_id, edge_id);

create table edge_addresses (
  account_id uuid not null,
  edge_id uuid not null,
  source_ip inet not null,
  count bigint not null,
  last_at timestamptz(3) not null,
  primary key (account_id, edge_id, source_ip),
  constraint edge_addresses_edge_fk foreign key (account_id, edge_id) references edges on delete cascade
);
create index edge_addresses_latest on edge_addresses (account_id, edge_id, last_at, source_ip);
