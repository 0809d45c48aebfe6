-- locks: identities
-- locks writes: api_keys
-- Which key linked an identity. Null when a sign-in did. No foreign key: it names the key also after that was deleted.
alter table identities add column created_by_key_id uuid;

-- Each linked identity with every living key above it, as in api_key_ancestors: what `revoke_descendants` deletes.
create table identity_ancestors (
  account_id uuid not null,
  ancestor_id uuid not null,
  identity_id uuid not null,
  primary key (account_id, ancestor_id, identity_id),
  constraint identity_ancestors_ancestor_fk foreign key (account_id, ancestor_id) references api_keys on delete cascade,
  constraint identity_ancestors_identity_fk foreign key (account_id, identity_id) references identities on delete cascade
);
create index identity_ancestors_of_identity on identity_ancestors (account_id, identity_id);
