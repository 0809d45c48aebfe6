-- locks: none
-- A dry run makes its change in a transaction that is rolled back, with `gatehouse.dry_run` set. Sequences are not rolled
-- back, and the mark of a transaction holds up readers until it ends: so a dry run takes neither.

create or replace function next_generation() returns bigint language plpgsql as $$
declare
  floor bigint;
  dry_run text := coalesce(current_setting('gatehouse.dry_run', true), '');
begin
  if dry_run <> '' then
    -- Below all others, and never given out twice at the same time: the setting counts, and the process id is its own.
    perform set_config('gatehouse.dry_run', (dry_run::int + 1)::text, true);
    return -((pg_backend_pid()::bigint << 20) + dry_run::int);
  end if;
  select last_value into floor from outbox_generations;
  perform pg_advisory_xact_lock_shared((71::bigint << 48) | floor);
  return nextval('outbox_generations');
end
$$;

create or replace function next_audit_position() returns bigint language plpgsql as $$
declare
  me text := pg_current_xact_id()::text;
  floor bigint;
begin
  -- The index by position finds the events of a dry run, which no other transaction ever sees.
  if coalesce(current_setting('gatehouse.dry_run', true), '') <> '' then
    return -1;
  end if;
  if coalesce(current_setting('gatehouse.audit_mark', true), '') <> me then
    select last_value into floor from audit_positions;
    perform pg_advisory_xact_lock_shared((72::bigint << 48) | floor);
    perform set_config('gatehouse.audit_mark', me, true);
  end if;
  return nextval('audit_positions');
end
$$;
