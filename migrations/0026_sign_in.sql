-- Who of a provider is which user. Matched by issuer and subject only: an email address can change hands.
create table identities (
  account_id uuid not null,
  id uuid not null,
  owner_id uuid not null,
  -- The name of the provider in the operator's file at the last sign-in, for people to read. Null before the first.
  provider text,
  issuer text not null,
  subject text not null,
  -- What the sessions of this identity hang on. Nobody has its token. Null until the next sign-in when it was deleted.
  api_key_id uuid,
  created_at timestamptz(3) not null default now(),
  last_sign_in_at timestamptz(3),
  primary key (account_id, id),
  constraint identities_owner_fk foreign key (account_id, owner_id) references principals on delete cascade,
  constraint identities_api_key_fk foreign key (account_id, api_key_id) references api_keys on delete set null (api_key_id),
  constraint identities_bytes check (
    octet_length(provider) <= 63 and octet_length(issuer) between 1 and 2048
    and octet_length(subject) between 1 and 1024
  )
);
create unique index identities_subject_unique on identities (account_id, issuer, subject);
create index identities_owner on identities (account_id, owner_id);
create index identities_api_key on identities (account_id, api_key_id);

-- Sign-ins that are under way at a provider. A row is taken by the response that has its state, once.
create table sign_in_flows (
  account_id uuid not null,
  state_hash bytea not null,
  -- Of the cookie of the browser that began it: nobody else can finish it.
  browser_hash bytea not null,
  provider text not null,
  nonce text not null,
  code_verifier text not null,
  return_to text not null,
  expires_at timestamptz(3) not null,
  primary key (account_id, state_hash),
  constraint sign_in_flows_account_fk foreign key (account_id) references accounts,
  constraint sign_in_flows_bytes check (
    octet_length(state_hash) = 32 and octet_length(browser_hash) = 32 and octet_length(provider) <= 63
    and octet_length(nonce) <= 255 and octet_length(code_verifier) <= 255 and octet_length(return_to) <= 2048
  )
);
create index sign_in_flows_age on sign_in_flows (expires_at);

-- Sessions that a provider vouched for: null for those of a token. The ID token is shown to the provider at sign-out.
alter table dashboard_sessions
  add column identity_id uuid,
  add column provider text,
  add column provider_sid text,
  add column id_token text;
alter table dashboard_sessions
  add constraint dashboard_sessions_identity_fk foreign key (account_id, identity_id) references identities on delete cascade,
  add constraint dashboard_sessions_provider_bytes check (
    octet_length(provider) <= 63 and octet_length(provider_sid) <= 1024 and octet_length(id_token) <= 16384
  );
create index dashboard_sessions_of_identity on dashboard_sessions (account_id, identity_id) where identity_id is not null;

-- Keys that a sign-in made: `provider` for what sessions hang on, `command` for `gatehouse login`.
alter table api_keys add column sign_in text;
alter table api_keys add constraint api_keys_sign_in check (sign_in in ('provider', 'command'));
create index api_keys_sign_in_age on api_keys (expires_at) where sign_in = 'command';

-- Requests of `gatehouse login`. They belong to no account until somebody approves one.
create table command_sign_ins (
  id uuid primary key,
  -- Of the code that the person compares.
  code_hash bytea not null,
  -- SHA-256 of a secret that only the waiting command has.
  challenge bytea not null,
  client text not null,
  host text not null,
  source_ip inet,
  created_at timestamptz(3) not null default now(),
  expires_at timestamptz(3) not null,
  denied boolean not null default false,
  account_id uuid,
  api_key_id uuid,
  constraint command_sign_ins_api_key_fk foreign key (account_id, api_key_id) references api_keys on delete cascade,
  constraint command_sign_ins_bytes check (
    octet_length(code_hash) = 32 and octet_length(challenge) = 32 and octet_length(client) between 1 and 100
    and octet_length(host) between 1 and 255
  )
);
create unique index command_sign_ins_code_unique on command_sign_ins (code_hash);
create index command_sign_ins_age on command_sign_ins (expires_at);
create index command_sign_ins_api_key on command_sign_ins (account_id, api_key_id);
