-- locks writes: principals, api_keys
-- Links by which users get their first key. One for each user: the next one replaces it. The key exists already, with a token
-- that was never revealed, so that what ends keys ends the invitation too.
create table user_invitations (
  account_id uuid not null,
  user_id uuid not null,
  secret_hash bytea not null,
  -- Null when that key was deleted.
  api_key_id uuid,
  -- No foreign key: who it was is known also after that user was deleted.
  invited_by uuid not null,
  created_at timestamptz(3) not null default now(),
  expires_at timestamptz(3) not null,
  accepted_at timestamptz(3),
  primary key (account_id, user_id),
  constraint user_invitations_user_fk foreign key (account_id, user_id) references principals on delete cascade,
  constraint user_invitations_api_key_fk foreign key (account_id, api_key_id) references api_keys
    on delete set null (api_key_id),
  constraint user_invitations_hash_bytes check (octet_length(secret_hash) = 32)
);
create unique index user_invitations_secret_hash_unique on user_invitations (secret_hash);
create index user_invitations_api_key on user_invitations (account_id, api_key_id);
create index user_invitations_age on user_invitations (expires_at) where accepted_at is null and api_key_id is not null;
