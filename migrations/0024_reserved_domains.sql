-- Domains that accounts have reserved. Any number of accounts may reserve one name; one of them can hold it, because it
-- has proven that it controls its DNS, or because the operator assigned it. A held domain stands for its name and
-- everything under it, except what is under a domain that somebody holds below it.
create table reserved_domains (
  account_id uuid not null constraint reserved_domains_account_fk references accounts,
  id uuid not null,
  domain text not null,
  description text,
  metadata text,
  -- The value of the TXT record: another for each reservation, so that it proves nothing for another account.
  challenge text not null,
  -- pending: never proven. failing: the record is gone, and the grace period has not ended. lapsed: it has.
  status text not null default 'pending',
  verified_at timestamptz(3),
  -- Of a failing one: when its account loses it.
  lapses_at timestamptz(3),
  checked_at timestamptz(3),
  -- Why the last check did not find the record.
  error text,
  created_at timestamptz(3) not null default now(),
  primary key (account_id, id),
  constraint reserved_domains_unique unique (account_id, domain),
  constraint reserved_domains_status check (status in ('pending', 'verified', 'failing', 'lapsed', 'assigned')),
  constraint reserved_domains_lapses check ((status = 'failing') = (lapses_at is not null)),
  constraint reserved_domains_domain_bytes check (octet_length(domain) between 3 and 253),
  constraint reserved_domains_challenge_bytes check (octet_length(challenge) between 16 and 255),
  constraint reserved_domains_error_bytes check (octet_length(error) <= 1000),
  constraint reserved_domains_description_bytes check (octet_length(description) between 1 and 255),
  constraint reserved_domains_metadata_bytes check (octet_length(metadata) between 1 and 4096)
);
-- Two who prove one domain at the same time: the first to commit holds it.
create unique index reserved_domains_one_holder on reserved_domains (domain)
  where status in ('verified', 'failing', 'assigned');
-- What is to be checked again, the longest unchecked first.
create index reserved_domains_unchecked on reserved_domains (checked_at) where status in ('verified', 'failing');

-- The held domain that a hostport is under, so that nobody deletes it meanwhile. Hostports from before, and those of an
-- installation that trusts its accounts, have none.
alter table hostports add column reserved_domain_id uuid;
alter table hostports add constraint hostports_domain_fk
  foreign key (account_id, reserved_domain_id) references reserved_domains (account_id, id);
create index hostports_of_domain on hostports (account_id, reserved_domain_id) where reserved_domain_id is not null;

-- Another account has proven the domain of a hostport whose own account has not.
alter table refused_hostports drop constraint refused_hostports_reason;
alter table refused_hostports add constraint refused_hostports_reason
  check (reason in ('overlap', 'public_suffix', 'domain_owned'));
