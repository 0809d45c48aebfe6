-- When each address was last let in and, of those, when it was last refused: for the list of addresses that a change has
-- shut out. An address that was never let in gets no row, so that a flood of refused ones leaves nothing behind.
create table address_outcomes (
  account_id uuid not null,
  type text not null,
  -- The TCP edge or the route; 0 for traffic of the API and the dashboard. No foreign key: see docs/adr/0068.
  target_id uuid not null,
  ip inet not null,
  allowed_at timestamptz(3) not null,
  refused_at timestamptz(3),
  primary key (account_id, type, target_id, ip),
  constraint address_outcomes_account_fk foreign key (account_id) references accounts,
  constraint address_outcomes_type check (type in ('dashboard', 'api', 'endpoints'))
);
create index address_outcomes_newest on address_outcomes (account_id, type, allowed_at);
create index address_outcomes_age on address_outcomes (allowed_at);
-- Only those that were refused after they were let in: few, whatever the table holds.
create index address_outcomes_refused on address_outcomes (account_id, refused_at, type, target_id, ip)
  where refused_at > allowed_at;
create index address_outcomes_refused_at on address_outcomes (refused_at, type) where refused_at > allowed_at;

-- What a change of many rules at once took out of a policy and put into it. Its audit event has only the numbers, and to
-- tell which change shut out an address one has to know the rules that were there before.
create table rule_set_changes (
  account_id uuid not null,
  -- Of the audit event.
  operation_id text not null,
  part text not null,
  cidrs cidr[] not null,
  allows boolean[] not null,
  expiries timestamptz(3)[] not null,
  rules int not null,
  created_at timestamptz(3) not null default now(),
  primary key (account_id, operation_id, part),
  constraint rule_set_changes_account_fk foreign key (account_id) references accounts,
  constraint rule_set_changes_part check (part in ('removed', 'replaced', 'added'))
);
create index rule_set_changes_age on rule_set_changes (created_at);
