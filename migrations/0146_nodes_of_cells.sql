-- locks: cells
-- locks writes: accounts
-- By how many nodes limits of the cell are divided. Null: they were not counted yet.
alter table cells add column counted_nodes int;

-- Accounts that have or had a limit of a cell. Their nodes are told how many they are, and still are when the last such limit is gone:
-- a node that gets changes late may have it yet.
create table accounts_with_cell_limits (
  account_id uuid primary key,
  constraint accounts_with_cell_limits_account_fk foreign key (account_id) references accounts
);
