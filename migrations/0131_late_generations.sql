-- locks: none
-- A change set takes its generation at its end. The mark that a transaction leaves with its number holds up the publisher,
-- for every account, and the changes of a large set take many seconds. With `gatehouse.one_generation` set to 'late', what
-- is written to the outbox has a number below zero, which is this connection's alone, until take_generation() replaces it.
-- Processes of an older version set 'on', and go on as before.
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
  if one = 'late' then
    return -(pg_backend_pid()::bigint << 20);
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

-- Returns the generation of what this transaction has written so far, and gives it to what follows. Null: it has written
-- nothing for edges.
create function take_generation() returns bigint language plpgsql as $$
declare
  own bigint := -(pg_backend_pid()::bigint << 20);
  taken bigint;
  one text := coalesce(current_setting('gatehouse.one_generation', true), '');
begin
  if coalesce(current_setting('gatehouse.dry_run', true), '') <> '' or one in ('', 'on') then
    return null;
  end if;
  if one <> 'late' then
    return one::bigint;
  end if;
  if not exists (select from outbox where generation = own) then
    return null;
  end if;
  perform set_config('gatehouse.one_generation', 'on', true);
  taken := next_generation();
  update outbox set generation = taken where generation = own;
  return taken;
end
$$;
