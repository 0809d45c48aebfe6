create table ip_policies (
  account_id uuid not null references accounts,
  id uuid not null,
  description text,
  metadata text,
  -- Raised by every change of its rules: what was compiled under a lower number is out of date.
  revision bigint not null default 0,
  created_at timestamptz(3) not null default now(),
  primary key (account_id, id),
  constraint ip_policies_description_bytes check (octet_length(description) between 1 and 255),
  constraint ip_policies_metadata_bytes check (octet_length(metadata) between 1 and 4096)
);

create table ip_policy_rules (
  account_id uuid not null,
  id uuid not null,
  ip_policy_id uuid not null,
  -- The type refuses host bits by itself; spelling and mapped ranges were settled before it came here.
  cidr cidr not null,
  action text not null,
  description text,
  metadata text,
  expires_at timestamptz(3),
  created_at timestamptz(3) not null default now(),
  primary key (account_id, id),
  constraint ip_policy_rules_policy_fk foreign key (account_id, ip_policy_id) references ip_policies on delete cascade,
  constraint ip_policy_rules_cidr_unique unique (account_id, ip_policy_id, cidr),
  constraint ip_policy_rules_action check (action in ('allow', 'deny')),
  constraint ip_policy_rules_description_bytes check (octet_length(description) between 1 and 255),
  constraint ip_policy_rules_metadata_bytes check (octet_length(metadata) between 1 and 4096)
);
create index ip_policy_rules_of_policy on ip_policy_rules (account_id, ip_policy_id, id);

create table ip_restrictions (
  account_id uuid not null references accounts,
  id uuid not null,
  type text not null,
  enforced boolean not null,
  description text,
  metadata text,
  created_at timestamptz(3) not null default now(),
  primary key (account_id, id),
  constraint ip_restrictions_type check (type in ('dashboard', 'api', 'agent', 'endpoints')),
  constraint ip_restrictions_description_bytes check (octet_length(description) between 1 and 255),
  constraint ip_restrictions_metadata_bytes check (octet_length(metadata) between 1 and 4096)
);
create index ip_restrictions_of_type on ip_restrictions (account_id, type);

create table ip_restriction_policies (
  account_id uuid not null,
  ip_restriction_id uuid not null,
  ip_policy_id uuid not null,
  position int not null,
  primary key (account_id, ip_restriction_id, ip_policy_id),
  foreign key (account_id, ip_restriction_id) references ip_restrictions on delete cascade,
  -- No cascade: this is what keeps a policy in use from being deleted, whatever races it.
  constraint ip_restriction_policies_ip_policy_fk foreign key (account_id, ip_policy_id) references ip_policies
);
create index ip_restriction_policies_of_policy on ip_restriction_policies (account_id, ip_policy_id);

-- What restrictions did to traffic, counted in memory and added up here every few seconds. The addresses are personal
-- data: rows are deleted after the configured number of days.
create table ip_restriction_counts (
  account_id uuid not null,
  ip_restriction_id uuid not null,
  hour timestamptz(0) not null,
  source_ip inet not null,
  outcome text not null,
  count bigint not null,
  last_at timestamptz(3) not null,
  last_api_key_id text,
  primary key (account_id, ip_restriction_id, hour, source_ip, outcome),
  foreign key (account_id, ip_restriction_id) references ip_restrictions on delete cascade,
  constraint ip_restriction_counts_outcome check (outcome in ('refused', 'warned'))
);
create index ip_restriction_counts_age on ip_restriction_counts (hour);

-- One row for each refused call, under its operation id, so that an admin can tell which rule refused it. No foreign
-- keys: it stays when what decided is deleted.
create table ip_refusals (
  account_id uuid not null,
  id uuid not null,
  created_at timestamptz(3) not null,
  type text not null,
  operation text not null,
  source_ip inet,
  api_key_id text,
  ip_restriction_id uuid not null,
  ip_policy_id uuid,
  ip_policy_rule_id uuid,
  primary key (account_id, id)
);
create index ip_refusals_age on ip_refusals (created_at);
