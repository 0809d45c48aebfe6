-- Every rule belongs to a policy of its account. A foreign key looks the policy up once for each row, which was a large part
-- of the time that PostgreSQL needed for 100,000 rules. These triggers do it once for each statement. docs/adr/0080 says why
-- they are as strict.
create function ip_policy_rules_have_policy() returns trigger language plpgsql
  -- A plan made while the table was small must not read all of it when it has grown.
  set enable_seqscan = off
as $$
declare
  owner record;
begin
  -- In one order, so that nobody waits in a circle.
  for owner in select distinct account_id, ip_policy_id from added order by account_id, ip_policy_id loop
    -- Waits for whoever deletes the policy, and makes later ones wait for us.
    perform from ip_policies where account_id = owner.account_id and id = owner.ip_policy_id for key share;
    if not found then
      raise foreign_key_violation using
        message = format('account %s has no IP policy %s', owner.account_id, owner.ip_policy_id),
        table = 'ip_policy_rules', constraint = 'ip_policy_rules_policy_fk';
    end if;
  end loop;
  return null;
end
$$;
create trigger ip_policy_rules_added after insert on ip_policy_rules
  referencing new table as added for each statement execute function ip_policy_rules_have_policy();
create trigger ip_policy_rules_updated after update on ip_policy_rules
  referencing new table as added for each statement execute function ip_policy_rules_have_policy();

create function ip_policies_delete_rules() returns trigger language plpgsql
  set enable_seqscan = off
as $$
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'IP policies must be deleted in a read committed transaction, which sees rules that were added while it waited';
  end if;
  delete from ip_policy_rules where account_id = old.account_id and ip_policy_id = old.id;
  return null;
end
$$;
-- PostgreSQL fires triggers in the order of their names: this one after the foreign keys that keep a policy in use.
create trigger ip_policies_deleted after delete on ip_policies
  for each row execute function ip_policies_delete_rules();

create function ip_policies_keep_rules() returns trigger language plpgsql as $$
begin
  raise exception 'IP policies cannot be truncated or get another id or account: their rules would be left without a policy';
end
$$;
create trigger ip_policies_key before update of account_id, id on ip_policies
  for each row when ((old.account_id, old.id) is distinct from (new.account_id, new.id))
  execute function ip_policies_keep_rules();
create trigger ip_policies_truncated before truncate on ip_policies
  for each statement execute function ip_policies_keep_rules();

-- Names in them mean our own tables, whatever the caller has in its search path or among its temporary tables.
do $$ begin
  execute format('alter function ip_policy_rules_have_policy() set search_path = %I, pg_temp', current_schema());
  execute format('alter function ip_policies_delete_rules() set search_path = %I, pg_temp', current_schema());
end $$;

alter table ip_policy_rules drop constraint ip_policy_rules_policy_fk;
