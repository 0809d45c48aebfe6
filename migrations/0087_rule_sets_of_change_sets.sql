-- locks: rule_set_changes
-- A change set changes the rules of several policies under one operation, and those of one policy more than once.
alter table rule_set_changes
  -- Null: written by a version whose operations changed one policy.
  add column ip_policy_id uuid,
  drop constraint rule_set_changes_pkey;
create index rule_set_changes_of_operation on rule_set_changes (account_id, operation_id);
