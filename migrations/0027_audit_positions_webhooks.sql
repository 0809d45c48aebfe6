-- Where an event stands in the order in which whoever follows the audit reads it. Ids cannot say that: a transaction that
-- took its id earlier may commit later, and a reader that has gone past the id never sees the event.
create sequence audit_positions;
-- last_value means 'the last one given out' only after the first call.
select nextval('audit_positions');

-- As next_generation(): the mark says 'mine will be higher than this' until the transaction ends. One for each
-- transaction, however many events it writes: the first is the lowest, and locks take room in shared memory.
create function next_audit_position() returns bigint language plpgsql as $$
declare
  me text := pg_current_xact_id()::text;
  floor bigint;
begin
  if coalesce(current_setting('gatehouse.audit_mark', true), '') <> me then
    select last_value into floor from audit_positions;
    perform pg_advisory_xact_lock_shared((72::bigint << 48) | floor);
    perform set_config('gatehouse.audit_mark', me, true);
  end if;
  return nextval('audit_positions');
end
$$;

-- The highest position up to which every transaction has ended; see settled_generation().
create function settled_audit_position() returns bigint language plpgsql volatile as $$
declare
  reached bigint;
  lowest_mark bigint;
begin
  select last_value into reached from audit_positions;
  select min(((classid::bigint & 65535) << 32) | objid::bigint) into lowest_mark
  from pg_locks
  where locktype = 'advisory' and objsubid = 1 and classid::bigint >> 16 = 72
    and database = (select oid from pg_database where datname = current_database());
  return least(reached, coalesce(lowest_mark, reached));
end
$$;

-- Events of before have position 0 and are read first, by id. A default, so that a process of the version before gives
-- its events positions too. The index takes about a second for each million events, and changes wait for it.
alter table audit_events add column position bigint not null default 0;
alter table audit_events alter column position set default next_audit_position();
create index audit_events_position on audit_events (account_id, position, id);

create table webhook_destinations (
  account_id uuid not null,
  id uuid not null,
  url text not null,
  description text,
  metadata text,
  -- Patterns of operations, as the scopes of keys.
  operations text[] not null,
  enabled boolean not null,
  -- Why the service has disabled it. Null: it has not.
  disabled_reason text,
  secret text not null,
  previous_secret text,
  previous_secret_expires_at timestamptz(3),
  created_at timestamptz(3) not null default now(),
  primary key (account_id, id),
  constraint webhook_destinations_account_fk foreign key (account_id) references accounts,
  constraint webhook_destinations_url_bytes check (octet_length(url) between 8 and 2048),
  constraint webhook_destinations_operations_number check (cardinality(operations) between 1 and 100),
  constraint webhook_destinations_description_bytes check (octet_length(description) between 1 and 255),
  constraint webhook_destinations_metadata_bytes check (octet_length(metadata) between 1 and 4096)
);

-- How far each destination has come. Apart from the destination, so that sending never waits for who edits it.
create table webhook_progress (
  account_id uuid not null,
  destination_id uuid not null,
  -- Up to where events have become deliveries, or were not wanted.
  position bigint not null,
  event_id uuid not null,
  failing_since timestamptz(3),
  last_delivered_at timestamptz(3),
  -- Events that were past their retention before they could be sent.
  skipped bigint not null default 0,
  -- When there is something to do besides new events. Null: nothing.
  wake_at timestamptz(3),
  -- Who sends for it now. A process that was killed loses it when the time is up.
  leased_by uuid,
  leased_until timestamptz(3),
  primary key (account_id, destination_id),
  constraint webhook_progress_destination_fk
    foreign key (account_id, destination_id) references webhook_destinations on delete cascade
);

create table webhook_deliveries (
  account_id uuid not null,
  destination_id uuid not null,
  event_id uuid not null,
  position bigint not null,
  operation text not null,
  resource_id text not null,
  status text not null,
  attempts int not null default 0,
  next_attempt_at timestamptz(3) not null default now(),
  last_attempt_at timestamptz(3),
  last_status int,
  last_error text,
  primary key (account_id, destination_id, event_id),
  constraint webhook_deliveries_destination_fk
    foreign key (account_id, destination_id) references webhook_destinations on delete cascade,
  constraint webhook_deliveries_status check (status in ('pending', 'delivered', 'dead'))
);
-- The first event of each resource that is still to be delivered.
create index webhook_deliveries_pending on webhook_deliveries
  (account_id, destination_id, resource_id, position, event_id) where status = 'pending';
create index webhook_deliveries_dead on webhook_deliveries (account_id, destination_id, event_id) where status = 'dead';
