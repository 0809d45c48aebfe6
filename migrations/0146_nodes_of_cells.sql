-- locks: cells
-- locks writes: accounts
-- By how many nodes limits of the cell are divided. Null: they were not counted yet.
alter table cells add column counted_nodes int;

-- Accounts that have or had a limit of a cell. Their nodes receive the count, even after the last such limit is gone:
-- a node that gets changes late may still have it.
create table accounts_with_cell_limits (
  account_id uuid primary key,
  constraint accounts_with_cell_limits_account_fk foreign key (account_id) references accounts
);
