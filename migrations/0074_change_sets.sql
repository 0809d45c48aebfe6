-- locks: none
-- locks writes: accounts
-- Several changes that are looked at together and made in one transaction.
create table change_sets (
  account_id uuid not null,
  id uuid not null,
  description text,
  metadata text,
  state text not null default 'draft',
  -- Of each change, in order.
  operations text[] not null,
  changes jsonb not null,
  -- Has an operation that only admins may call.
  admins_only boolean not null,
  -- How what would change was when the draft was made.
  base jsonb not null,
  author_id text not null,
  created_at timestamptz(3) not null default now(),
  applied_at timestamptz(3),
  applied_by text,
  -- For each change, the id of what it created or changed.
  applied_resources jsonb,
  generation bigint,
  primary key (account_id, id),
  constraint change_sets_account_fk foreign key (account_id) references accounts,
  constraint change_sets_description check (octet_length(description) <= 255),
  constraint change_sets_metadata check (octet_length(metadata) <= 4096),
  constraint change_sets_state check (state in ('draft', 'applied')),
  constraint change_sets_changes check (octet_length(changes::text) <= 4194304)
);
create index change_sets_applied on change_sets (applied_at) where applied_at is not null;

-- Only drafts count for the quota: what was applied is history, and deleted after a while.
create trigger change_sets_added_count after insert on change_sets referencing new table as changed
  for each statement execute function count_usage($k$case state when 'draft' then 'change_sets' end$k$);
create trigger change_sets_removed_count after delete on change_sets referencing old table as changed
  for each statement execute function count_usage($k$case state when 'draft' then 'change_sets' end$k$);
create function change_set_is_no_draft() returns trigger language plpgsql as $$
begin
  insert into account_usage (account_id, kind, used) values (new.account_id, 'change_sets', -1);
  return null;
end
$$;
create trigger change_sets_applied_count after update on change_sets
  for each row when (old.state = 'draft' and new.state <> 'draft') execute function change_set_is_no_draft();

-- With `gatehouse.one_generation` set to 'on', all changes of a transaction have the same.
create or replace function next_generation() returns bigint language plpgsql as $$
declare
  floor bigint;
  generation bigint;
  dry_run text := coalesce(current_setting('gatehouse.dry_run', true), '');
  one text := coalesce(current_setting('gatehouse.one_generation', true), '');
begin
  if dry_run <> '' then
    -- Below all others, and never given out twice at the same time: the setting counts, and the process id is its own.
    perform set_config('gatehouse.dry_run', (dry_run::int + 1)::text, true);
    return -((pg_backend_pid()::bigint << 20) + dry_run::int);
  end if;
  if one not in ('', 'on') then
    return one::bigint;
  end if;
  select last_value into floor from outbox_generations;
  perform pg_advisory_xact_lock_shared((71::bigint << 48) | floor);
  generation := nextval('outbox_generations');
  if one = 'on' then
    perform set_config('gatehouse.one_generation', generation::text, true);
  end if;
  return generation;
end
$$;

do $$
begin
  execute format('alter function change_set_is_no_draft() set search_path = %I, pg_temp', current_schema());
end $$;
