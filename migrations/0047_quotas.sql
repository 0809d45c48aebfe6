-- locks writes: accounts, principals, api_keys, identities, ip_policies, ip_policy_rules, ip_restrictions, edges
-- locks writes: backends, reserved_domains, tls_certificates, webhook_destinations
-- How many of each kind of thing an account stores: the sum of its rows. What adds or removes things adds a row and changes
-- none, so nobody waits for another's count. Rows are added up when there are many.
create table account_usage (
  account_id uuid not null,
  kind text not null,
  id bigint generated always as identity,
  used bigint not null,
  primary key (account_id, kind, id)
);

-- The operator's quota for one account, in place of the setting for all.
create table account_quotas (
  account_id uuid not null,
  kind text not null,
  quota bigint not null,
  primary key (account_id, kind),
  constraint account_quotas_account_fk foreign key (account_id) references accounts,
  constraint account_quotas_quota check (quota >= 0)
);

create function quota_of(account uuid, what text, default_quota bigint) returns bigint language sql stable as $$
  select coalesce((select quota from account_quotas where account_id = account and kind = what), default_quota)
$$;

-- The argument is an expression for the kind of a row; null for rows that do not count.
create function count_usage() returns trigger language plpgsql as $$
begin
  execute format(
    'insert into account_usage (account_id, kind, used)
     select account_id, %1$s, %2$s count(*) from changed where %1$s is not null group by 1, 2',
    tg_argv[0], case tg_op when 'INSERT' then '' else '-' end);
  return null;
end
$$;

-- Fails when the account would have more of a kind than it may have. `in_turn`: they have been added, and others who add
-- some wait until this transaction ends. Every statement of a function like this sees what was committed before it.
create function refuse_beyond_quota(account uuid, what text, added bigint, default_quota bigint, in_turn boolean)
returns void language plpgsql as $$
declare
  turn int := hashtext(account || what);
  quota bigint := quota_of(account, what, default_quota);
  before bigint;
  parts bigint;
begin
  if in_turn then
    perform pg_advisory_xact_lock(80, turn);
  end if;
  select coalesce(sum(used), 0) - case when in_turn then added else 0 end, count(*) into before, parts
  from account_usage where account_id = account and kind = what;
  if before + added > quota then
    raise check_violation using
      message = format('account %s may have %s of %s', account, quota, what), constraint = 'account_quota',
      detail = json_build_object('kind', what, 'limit', quota, 'used', before, 'added', added);
  end if;
  if in_turn and parts > 50 then
    with gone as (delete from account_usage where account_id = account and kind = what returning used)
    insert into account_usage (account_id, kind, used) select account, what, sum(used) from gone having count(*) > 0;
  end if;
end
$$;

do $$
declare
  counted record;
begin
  for counted in
    select * from (values
      ('principals', $k$case kind when 'user' then 'users' else 'bot_users' end$k$),
      ('api_keys', $k$'api_keys'$k$),
      ('identities', $k$'identities'$k$),
      ('ip_policies', $k$'ip_policies'$k$),
      ('ip_policy_rules', $k$'ip_policy_rules'$k$),
      ('ip_restrictions', $k$'ip_restrictions'$k$),
      ('edges', $k$case kind when 'tcp' then 'tcp_edges' when 'https' then 'https_edges' else 'https_edge_routes' end$k$),
      ('backends', $k$'backends'$k$),
      ('reserved_domains', $k$'reserved_domains'$k$),
      -- Certificates that the installation orders are as many as domains.
      ('tls_certificates', $k$case source when 'uploaded' then 'tls_certificates' end$k$),
      ('webhook_destinations', $k$'webhook_destinations'$k$)
    ) as t (name, kind)
  loop
    execute format('create trigger %1$s_added_count after insert on %1$I referencing new table as changed
      for each statement execute function count_usage(%2$L)', counted.name, counted.kind);
    execute format('create trigger %1$s_removed_count after delete on %1$I referencing old table as changed
      for each statement execute function count_usage(%2$L)', counted.name, counted.kind);
    execute format('insert into account_usage (account_id, kind, used)
      select account_id, %2$s, count(*) from %1$I where %2$s is not null group by 1, 2', counted.name, counted.kind);
  end loop;
  -- Names in them mean our own tables, whatever the caller has in its search path or among its temporary tables.
  execute format('alter function quota_of(uuid, text, bigint) set search_path = %I, pg_temp', current_schema());
  execute format('alter function count_usage() set search_path = %I, pg_temp', current_schema());
  execute format('alter function refuse_beyond_quota(uuid, text, bigint, bigint, boolean) set search_path = %I, pg_temp',
    current_schema());
end $$;
