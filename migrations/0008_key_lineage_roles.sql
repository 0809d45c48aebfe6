-- Which key made a key. No foreign key: it names the parent also after that was deleted, as evidence.
alter table api_keys add column created_by_key_id uuid;

-- Each living key with every living key above it: what `revoke_descendants` deletes. A walk along created_by_key_id would
-- end at the first deleted key. The foreign key to the ancestor decides races: a new descendant holds the rows of all its
-- ancestors until it is committed, so whoever revokes one of them either waits and finds it, or was first and it fails.
create table api_key_ancestors (
  account_id uuid not null,
  ancestor_id uuid not null,
  api_key_id uuid not null,
  primary key (account_id, ancestor_id, api_key_id),
  constraint api_key_ancestors_ancestor_fk foreign key (account_id, ancestor_id) references api_keys on delete cascade,
  constraint api_key_ancestors_api_key_fk foreign key (account_id, api_key_id) references api_keys on delete cascade
);
create index api_key_ancestors_of_key on api_key_ancestors (account_id, api_key_id);

-- For the deletion of sessions that nobody uses any more; those past their end have an index already.
create index dashboard_sessions_idle on dashboard_sessions (last_used_at);

-- `serve` may run under a role that owns nothing and can only add to the audit. Its upkeep makes and drops partitions all
-- the same: through the two functions below, which run as the owner and do no more than the upkeep needs. Whoever is the
-- owner, or a superuser, is not held to their bounds.

-- How many months of the audit that role must leave alone; 0 for all of them. Only the owner writes it.
create table audit_retention (
  one boolean primary key default true check (one),
  least_months int not null,
  constraint audit_retention_months check (least_months between 0 and 1200)
);
insert into audit_retention (least_months) values (0);

create function audit_is_owners() returns boolean language sql stable as $$
  select pg_has_role(session_user, relowner, 'member') from pg_class where oid = 'audit_events'::regclass
$$;

-- The least UUIDv7 of a month's first moment.
create function audit_first_id(month date) returns uuid language sql immutable as $$
  select (lpad(to_hex((extract(epoch from month::timestamp at time zone 'UTC') * 1000)::bigint), 12, '0')
    || '70008000000000000000')::uuid
$$;

-- True when it made one. Others than the owner may make those of the months around now only.
create function add_audit_partition(month date) returns boolean language plpgsql security definer as $$
declare
  this_month date := date_trunc('month', now() at time zone 'UTC')::date;
  part text := 'audit_events_' || to_char(month, 'YYYY_MM');
  from_id uuid := audit_first_id(month);
  to_id uuid := audit_first_id((month + interval '1 month')::date);
begin
  if extract(day from month) <> 1 then
    raise exception '% is not the first day of a month', month using errcode = 'invalid_parameter_value';
  end if;
  if not audit_is_owners() and month not between this_month - interval '1 month' and this_month + interval '4 months' then
    raise exception 'the partition of % is not due', month using errcode = 'insufficient_privilege';
  end if;
  -- One after another: of two that look and then act, the second would fail.
  perform pg_advisory_xact_lock(7204113002);
  if exists (select from pg_inherits i join pg_class c on c.oid = i.inhrelid
             where i.inhparent = 'audit_events'::regclass and c.relname = part) then
    return false;
  end if;
  if not exists (select from audit_events_default where id >= from_id and id < to_id) then
    execute format('create table %I partition of audit_events for values from (%L) to (%L)', part, from_id, to_id);
    return true;
  end if;
  -- Events came before their partition. PostgreSQL refuses one whose rows the default partition holds: they move first.
  lock table audit_events in share row exclusive mode;
  execute format('create table %I (like audit_events including all)', part);
  execute format('with moved as (delete from audit_events_default where id >= %L and id < %L returning *)
                  insert into %I select * from moved', from_id, to_id, part);
  execute format('alter table audit_events attach partition %I for values from (%L) to (%L)', part, from_id, to_id);
  return true;
end
$$;

-- Drops the oldest month that ended more than `keep_months` months ago, and returns its name; null when there is none.
-- Others than the owner cannot choose the moment, nor keep less than the owner has said.
create function drop_audit_partition(keep_months int, moment timestamptz) returns text
language plpgsql security definer as $$
declare
  least_months int;
  oldest_kept date;
  part text;
begin
  if not audit_is_owners() then
    select r.least_months into least_months from audit_retention r;
    if least_months = 0 then return null; end if;
    if keep_months > 0 then keep_months := greatest(keep_months, least_months); end if;
    moment := now();
  end if;
  if keep_months <= 0 then return null; end if;
  oldest_kept := (date_trunc('month', moment at time zone 'UTC') - make_interval(months => keep_months))::date;
  perform pg_advisory_xact_lock(7204113002);
  select c.relname into part from pg_inherits i join pg_class c on c.oid = i.inhrelid
  where i.inhparent = 'audit_events'::regclass and c.relname ~ '^audit_events_\d{4}_\d\d$'
    and c.relname < 'audit_events_' || to_char(oldest_kept, 'YYYY_MM')
  order by c.relname limit 1;
  if part is null then
    delete from audit_events_default where id < audit_first_id(oldest_kept);
  else
    execute format('drop table %I', part);
  end if;
  return part;
end
$$;

-- Names in them mean our own tables, whatever the caller has in its search path or among its temporary tables.
do $$ begin
  execute format('alter function add_audit_partition(date) set search_path = %I, pg_temp', current_schema());
  execute format('alter function drop_audit_partition(int, timestamptz) set search_path = %I, pg_temp', current_schema());
end $$;
revoke execute on function add_audit_partition(date), drop_audit_partition(int, timestamptz) from public;
