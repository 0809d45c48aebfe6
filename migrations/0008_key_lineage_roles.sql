-- Which key made a key. No foreign key: it names the parent also after that was deleted, as evidence.
alter table api_keys add column created_by_key_id uuid;

-- Each living key with every living key above it: what `revoke_descendants` deletes. A walk along created_by_key_id would
-- end at the first deleted key. The foreign key to the ancestor decides races: a new descendant holds the rows of all its
-- ancestors until it is committed, so whoever revokes one of them either waits and finds it, or was first and it fails.
create table api_key_ancestors (
  account_id uuid not null,
  ancestor_id uuid not null,
  api_key_id uuid not null,
  primary key (account_id, ancestor_id, api_key_id),
  constraint api_key_ancestors_ancestor_fk foreign key (account_id, ancestor_id) references api_keys on delete cascade,
  constraint api_key_ancestors_api_key_fk foreign key (account_id, api_key_id) references api_keys on delete cascade
);
create index api_key_ancestors_of_key on api_key_ancestors (account_id, api_key_id);

-- For the deletion of sessions that nobody uses any more; those past their end have an index already.
create index dashboard_sessions_idle on dashboard_sessions (last_used_at);
