-- locks: change_sets
-- What a change set did, so that it can be undone, and what it undoes.
alter table change_sets
  -- The audit events of its changes, in order. Null: it has not been applied, or by a version that did not record them.
  add column applied_events uuid[],
  -- The audit event or the change set that it was made to undo.
  add column reverts_id text,
  -- The audit events that it undoes, which are those of that change set, or the one.
  add column reverts uuid[] not null default '{}',
  drop constraint change_sets_state,
  add constraint change_sets_state check (state in ('draft', 'applied', 'reverted'));

-- What has been undone, and by which change set: the key is what lets no change be undone twice.
create table reverted_events (
  account_id uuid not null,
  event_id uuid not null,
  change_set_id uuid not null,
  primary key (account_id, event_id),
  constraint reverted_events_change_set_fk foreign key (account_id, change_set_id) references change_sets on delete cascade
);
create index reverted_events_change_set on reverted_events (account_id, change_set_id);
