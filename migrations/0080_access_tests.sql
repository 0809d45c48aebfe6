-- locks writes: accounts, edges
-- What the account expects of its restrictions and policies: this address is let in there, or it is not.
create table access_tests (
  account_id uuid not null,
  id uuid not null,
  description text,
  metadata text,
  address inet not null,
  type text not null,
  -- The TCP edge or the route. Null once it was deleted in spite of the test, which goes before the transaction ends.
  target_id uuid,
  path text,
  expect text not null,
  created_at timestamptz(3) not null default now(),
  primary key (account_id, id),
  constraint access_tests_account_fk foreign key (account_id) references accounts,
  constraint access_tests_target_fk foreign key (account_id, target_id) references edges on delete set null (target_id),
  constraint access_tests_description check (octet_length(description) <= 255),
  constraint access_tests_metadata check (octet_length(metadata) <= 4096),
  constraint access_tests_type check (type in ('api', 'dashboard', 'edge', 'route')),
  constraint access_tests_target check (target_id is null or type in ('edge', 'route')),
  constraint access_tests_path check ((path is not null) = (type = 'route') and octet_length(path) <= 1024),
  constraint access_tests_expect check (expect in ('allowed', 'refused'))
);
create index access_tests_of_target on access_tests (account_id, target_id) where target_id is not null;

create trigger access_tests_added_count after insert on access_tests referencing new table as changed
  for each statement execute function count_usage($k$'access_tests'$k$);
create trigger access_tests_removed_count after delete on access_tests referencing old table as changed
  for each statement execute function count_usage($k$'access_tests'$k$);

-- For a change that could break a test. Changes of an account without tests hold the lock together; a test is created by one
-- who holds it alone. Fails when there are tests: then the change is made again, alone, and judged by them.
create function begin_untested_change(account uuid) returns void language plpgsql as $$
declare
  of_account constant int := hashtext(account::text);
begin
  perform pg_advisory_xact_lock_shared(83, of_account);
  if exists (select from access_tests where account_id = account) then
    raise check_violation using message = 'the account has access tests', constraint = 'access_tests_judge';
  end if;
end
$$;

do $$
begin
  execute format('alter function begin_untested_change(uuid) set search_path = %I, pg_temp', current_schema());
end $$;
