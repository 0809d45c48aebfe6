-- locks: change_sets, api_keys, identities, accounts
-- Changes that need the approval of another admin.

-- The kinds of resources whose changes need it. Empty: none.
alter table accounts add column approval_required_for text[] not null default '{}';

-- The users and bots who have seen the token of a key, besides its owner and the owners of the keys above it.
alter table api_keys add column issuers uuid[] not null default '{}';
alter table identities add column issuers uuid[] not null default '{}';

alter table change_sets
  -- The users and bots who may have sent its changes: owners and issuers of the keys that they were sent with.
  add column authors uuid[] not null default '{}',
  add column approved_at timestamptz(3),
  add column approved_by text,
  -- The hash of the content that was approved.
  add column approved_sha256 text,
  add column withdrawn_at timestamptz(3),
  add column withdrawn_by text,
  drop constraint change_sets_state,
  -- A rule set that was sent as text waits as JSON.
  drop constraint change_sets_changes,
  add constraint change_sets_changes check (octet_length(changes::text) <= 33554432),
  add constraint change_sets_state check (state in
    ('draft', 'waiting', 'approved', 'applied', 'confirmed', 'reverted', 'revert_failed', 'withdrawn'));
create index change_sets_withdrawn on change_sets (withdrawn_at) where withdrawn_at is not null;

-- What has not been made yet counts for the quota.
drop trigger change_sets_added_count on change_sets;
drop trigger change_sets_removed_count on change_sets;
drop trigger change_sets_applied_count on change_sets;
create trigger change_sets_added_count after insert on change_sets referencing new table as changed
  for each statement execute function
    count_usage($k$case when state in ('draft', 'waiting', 'approved') then 'change_sets' end$k$);
create trigger change_sets_removed_count after delete on change_sets referencing old table as changed
  for each statement execute function
    count_usage($k$case when state in ('draft', 'waiting', 'approved') then 'change_sets' end$k$);
create trigger change_sets_applied_count after update on change_sets
  for each row when (old.state in ('draft', 'waiting', 'approved') and new.state not in ('draft', 'waiting', 'approved'))
  execute function change_set_is_no_draft();
