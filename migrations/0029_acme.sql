-- Who takes care of the certificate of a domain: null means a person.
alter table reserved_domains add column certificate_authority text;
alter table reserved_domains add column private_key_type text;
alter table reserved_domains add constraint reserved_domains_management check (
  (certificate_authority is null and private_key_type is null) or
  (certificate_authority in ('acme', 'letsencrypt') and private_key_type in ('ecdsa', 'rsa'))
);

-- The installation's account with each authority. The key is encrypted like those of certificates.
create table acme_accounts (
  directory_url text primary key,
  private_key bytea not null,
  secrets_key_id text not null,
  created_at timestamptz(3) not null default now(),
  constraint acme_accounts_private_key_bytes check (octet_length(private_key) between 29 and 24000),
  constraint acme_accounts_secrets_key_id check (secrets_key_id ~ '^[0-9a-f]{16}$')
);

-- What is planned or under way for the certificate of a domain. Whoever works on it has a lease, and writes only as long
-- as the token in the row is its own: one order at a time for each domain, in whatever process.
create table acme_orders (
  account_id uuid not null,
  domain_id uuid not null,
  next_attempt_at timestamptz(3) not null default now(),
  -- Whatever the account does, the authority is not asked before.
  held_back_until timestamptz(3),
  -- Counts what asked for another look, so that one that came during an attempt is not forgotten at its end.
  plans int not null default 0,
  lease_token uuid,
  lease_until timestamptz(3),
  -- Of an order that has begun, so that another process can go on with it after a crash.
  started_at timestamptz(3),
  order_url text,
  order_names text[],
  private_key bytea,
  secrets_key_id text,
  -- In a row, since the last success.
  failures int not null default 0,
  error_code text,
  error text,
  -- Of the certificate that there is: when it is renewed, and who issued it.
  renews_at timestamptz(3),
  issued_by text,
  primary key (account_id, domain_id),
  constraint acme_orders_domain_fk foreign key (account_id, domain_id)
    references reserved_domains (account_id, id) on delete cascade,
  constraint acme_orders_lease check ((lease_token is null) = (lease_until is null)),
  constraint acme_orders_begun check ((order_url is null) = (private_key is null)
    and (order_url is null) = (secrets_key_id is null) and (order_url is null) = (order_names is null)),
  constraint acme_orders_error_bytes check (octet_length(error) <= 2000)
);
create index acme_orders_next on acme_orders (next_attempt_at);
create index acme_orders_leased on acme_orders (account_id, lease_until) where lease_until is not null;

-- What nodes answer on port 80 while a name is validated.
create table acme_challenges (
  account_id uuid not null,
  id uuid not null,
  domain_id uuid not null,
  host text not null,
  token text not null,
  answer text not null,
  created_at timestamptz(3) not null default now(),
  primary key (account_id, id),
  constraint acme_challenges_domain_fk foreign key (account_id, domain_id)
    references reserved_domains (account_id, id) on delete cascade
);
create index acme_challenges_of_domain on acme_challenges (account_id, domain_id);
