-- Which ranges each change of a policy's rules was about, so that whoever has compiled an earlier revision can continue from
-- it. A revision without a row may have changed anything; only the last ones are kept.
create table ip_policy_changes (
  account_id uuid not null,
  ip_policy_id uuid not null,
  revision bigint not null,
  cidrs cidr[] not null,
  primary key (account_id, ip_policy_id, revision),
  constraint ip_policy_changes_policy_fk foreign key (account_id, ip_policy_id) references ip_policies on delete cascade
);
-- When the next rule of a policy expires, and which have expired since a moment.
create index ip_policy_rules_expiry_of_policy on ip_policy_rules (account_id, ip_policy_id, expires_at)
  where expires_at is not null;
