-- locks: change_sets
-- Change sets that are applied for a limited time, and undone unless someone confirms them.
alter table change_sets
  add column confirm_by timestamptz(3),
  add column confirmed_at timestamptz(3),
  add column confirmed_by text,
  -- Why it could not be undone when its time was over.
  add column revert_failure text,
  drop constraint change_sets_state,
  add constraint change_sets_state check (state in ('draft', 'applied', 'confirmed', 'reverted', 'revert_failed'));
create index change_sets_unconfirmed on change_sets (confirm_by)
  where confirm_by is not null and state in ('applied', 'revert_failed');
