-- locks: webhook_destinations
-- locks writes: accounts
-- What an account wants to be told of.
create table alert_rules (
  account_id uuid not null,
  id uuid not null,
  description text,
  metadata text,
  kind text not null,
  -- The public id of the one thing that it watches. Null: everything of that kind in the account.
  resource_id text,
  for_seconds int not null,
  percent real,
  window_minutes int,
  enabled boolean not null,
  silenced_until timestamptz(3),
  created_at timestamptz(3) not null default now(),
  -- What the last evaluation found. Null: there was none yet.
  evaluated_at timestamptz(3),
  firing int not null default 0,
  -- Things of which it is not known whether the condition holds.
  unclear int not null default 0,
  primary key (account_id, id),
  constraint alert_rules_account_fk foreign key (account_id) references accounts,
  constraint alert_rules_description check (octet_length(description) <= 255),
  constraint alert_rules_metadata check (octet_length(metadata) <= 4096),
  constraint alert_rules_kind check (octet_length(kind) <= 50),
  constraint alert_rules_resource check (octet_length(resource_id) <= 100),
  constraint alert_rules_for check (for_seconds between 0 and 86400),
  constraint alert_rules_percent check (percent between 0.1 and 100),
  constraint alert_rules_window check (window_minutes between 1 and 60)
);

-- One for each thing for which the condition of a rule holds or held. Those that are over are the history.
create table alerts (
  account_id uuid not null,
  id uuid not null,
  rule_id uuid not null,
  kind text not null,
  -- Empty: the account.
  resource_id text not null,
  state text not null,
  reason text not null,
  since timestamptz(3) not null,
  fired_at timestamptz(3),
  -- Since when the condition has not held without a break, and since when it is not known whether it does.
  clear_since timestamptz(3),
  unclear_since timestamptz(3),
  resolved_at timestamptz(3),
  -- Null: not told yet, because the rule is silenced or the account was told of too many.
  notified_at timestamptz(3),
  primary key (account_id, id),
  constraint alerts_account_fk foreign key (account_id) references accounts,
  constraint alerts_state check (state in ('pending', 'firing', 'resolved')),
  constraint alerts_resource check (octet_length(resource_id) <= 100),
  constraint alerts_reason check (octet_length(reason) <= 1000)
);
create unique index alerts_open on alerts (account_id, rule_id, resource_id) where state <> 'resolved';

-- When the rules of an account are evaluated next, and who does it now. A process that was killed loses its turn.
create table alert_turns (
  account_id uuid primary key,
  due_at timestamptz(3) not null default now(),
  leased_by uuid,
  leased_until timestamptz(3),
  constraint alert_turns_account_fk foreign key (account_id) references accounts
);
create index alert_turns_due on alert_turns (due_at);

-- How a destination wants events: as signed webhooks, or as messages for people.
alter table webhook_destinations add column format text not null default 'standard';

create trigger alert_rules_added_count after insert on alert_rules referencing new table as changed
  for each statement execute function count_usage($k$'alert_rules'$k$);
create trigger alert_rules_removed_count after delete on alert_rules referencing old table as changed
  for each statement execute function count_usage($k$'alert_rules'$k$);
