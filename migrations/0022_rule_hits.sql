-- Which rules decide, and how often: the evidence for removing those that do not. Without foreign keys: a key would make
-- each write of counts wait for changes of rules, and these for the counts. Rows of rules that are gone are never shown,
-- and go with the hourly upkeep.
create table ip_rule_hits (
  account_id uuid not null,
  ip_policy_rule_id uuid not null,
  allowed bigint not null,
  refused bigint not null,
  warned bigint not null,
  last_at timestamptz(3) not null,
  primary key (account_id, ip_policy_rule_id)
);
create table ip_rule_hit_days (
  account_id uuid not null,
  ip_policy_rule_id uuid not null,
  -- In UTC.
  day date not null,
  hits bigint not null,
  primary key (account_id, ip_policy_rule_id, day)
);
create index ip_rule_hit_days_age on ip_rule_hit_days (day);

-- A rule that was never counted has not been used since then, or since it was created.
create table ip_rule_counting (
  one boolean primary key default true check (one),
  began_at timestamptz(3) not null default now()
);
insert into ip_rule_counting default values;

-- The last counts of each agent that were added, so that counts which a node sends again are not added again.
create table ip_rule_hit_batches (
  node text not null,
  sender uuid not null,
  batch bigint not null,
  received_at timestamptz(3) not null,
  primary key (node, sender),
  constraint ip_rule_hit_batches_node_bytes check (octet_length(node) between 1 and 255)
);
