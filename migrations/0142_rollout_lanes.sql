-- locks: cells
-- Null: this does not halt rollouts in the cell.
alter table cells
  alter column halt_addresses drop not null,
  alter column halt_addresses_percent drop not null,
  alter column halt_errors_percent drop not null;
