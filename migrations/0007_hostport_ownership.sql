-- What a hostport claims for its account: a TCP one its port (':20021'), an HTTPS one its name, spelt backwards so that
-- everything under a domain stands together ('elpmaxe.proc.' for corp.example and for *.corp.example). HTTPS hostports
-- have port 443, and TCP ones never do. Indexes use it: a change of what it returns needs them built again.
create function hostport_claim(hostport text) returns text language sql immutable strict parallel safe as $$
  select case
    when hostport not like '%:443' then ':' || substring(hostport from '[0-9]+$')
    when hostport like '*.%' then reverse(substr(split_part(hostport, ':', 1), 2))
    else reverse(split_part(hostport, ':', 1)) || '.'
  end
$$;
create index hostports_claim on hostports (hostport_claim(hostport) collate "C", account_id);
-- How many ports an account has. HTTPS hostports, which may be millions, are not in it.
create index hostports_tcp_of_account on hostports (account_id, hostport) where hostport not like '%:443';

-- The locks below rely on two labels. Not valid: `gatehouse migrate` takes the rows that are there already out of force.
alter table hostports add constraint hostports_wildcard_labels
  check (hostport not like '*.%' or hostport like '*.%.%') not valid;

-- No claim overlaps one of another account; docs/adr/0029 says why this is a trigger. Whoever inserts holds the locks of
-- its names until its transaction ends, so that the check sees whatever was claimed before. Two claims can only overlap
-- when they have the last two labels, or the port, in common: those decide which lock. 1,024 locks in all, because the
-- locks of a server are limited and a transaction may need one for each of its hostports; taken in one order, so that
-- nobody waits in a circle. Plain names share them: they cannot overlap each other.
create function hostports_one_owner() returns trigger language plpgsql
  -- A plan made while the table was small must not read all of it when it has grown.
  set enable_seqscan = off
as $$
declare
  needed record;
  added_row record;
  ancestors text[];
  is_taken boolean;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'hostports must be changed in a read committed transaction, which sees what was claimed while it waited';
  end if;
  for needed in
    select hashtext(coalesce(substring(claim from '^[^.]*\.[^.]*'), claim)) & 1023 as lock,
      bool_or(hostport like '*.%' or claim like ':%') as is_exclusive
    from (select hostport, hostport_claim(hostport) as claim from added) c
    group by 1 order by 1
  loop
    if needed.is_exclusive then
      perform pg_advisory_xact_lock(72, needed.lock);
    else
      perform pg_advisory_xact_lock_shared(72, needed.lock);
    end if;
  end loop;

  for added_row in
    select hostport, account_id, hostport_claim(hostport) as claim, hostport like '*.%' as is_wildcard
    from added order by hostport
  loop
    if added_row.claim like ':%' then
      -- Not '<>', for which an account with many hostports on this port would read them all.
      is_taken := exists (
        select from hostports h
        where hostport_claim(h.hostport) collate "C" = added_row.claim and h.account_id < added_row.account_id
      ) or exists (
        select from hostports h
        where hostport_claim(h.hostport) collate "C" = added_row.claim and h.account_id > added_row.account_id
      );
    else
      select array_agg(left(added_row.claim, i)) into ancestors
      from generate_series(1, length(added_row.claim)) i where substr(added_row.claim, i, 1) = '.';
      is_taken := exists (
        select from hostports h
        where hostport_claim(h.hostport) collate "C" = any(ancestors) and h.hostport like '*.%'
          and h.account_id <> added_row.account_id
      ) or (added_row.is_wildcard and exists (
        -- '/' follows '.' in ASCII: the domain itself and everything under it.
        select from hostports h
        where hostport_claim(h.hostport) collate "C" >= added_row.claim
          and hostport_claim(h.hostport) collate "C" < left(added_row.claim, -1) || '/'
          and h.account_id <> added_row.account_id
      ));
    end if;
    if is_taken then
      raise exception 'another account has a claim that overlaps %', added_row.hostport
        using errcode = 'exclusion_violation', constraint = 'hostports_one_owner', detail = added_row.hostport;
    end if;
  end loop;
  return null;
end
$$;
create trigger hostports_one_owner_insert after insert on hostports
  referencing new table as added for each statement execute function hostports_one_owner();
create trigger hostports_one_owner_update after update on hostports
  referencing new table as added for each statement execute function hostports_one_owner();

-- Hostports that an edge had before the rules above and may not have under them: not in force anywhere, and kept so that
-- their account sees what happened. They block nobody.
create table refused_hostports (
  account_id uuid not null,
  edge_id uuid not null,
  hostport text not null,
  position int not null,
  reason text not null,
  refused_at timestamptz(3) not null default now(),
  primary key (account_id, edge_id, hostport),
  foreign key (account_id, edge_id) references edges on delete cascade,
  constraint refused_hostports_reason check (reason in ('overlap', 'public_suffix'))
);
