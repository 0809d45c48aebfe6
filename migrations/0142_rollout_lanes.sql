-- locks: cells, outbox, rollouts
-- Null: this does not halt rollouts in the cell.
alter table cells
  alter column halt_addresses drop not null,
  alter column halt_addresses_percent drop not null,
  alter column halt_errors_percent drop not null;

-- Why a change does not wait for a watch, if someone asked for that; and what it refuses, if it does nothing else.
alter table outbox
  add column urgent text,
  add column denies cidr;
create index outbox_denies on outbox (account_id) where denies is not null;

-- The operator releases it, even if nodes have refused it.
alter table rollouts add column is_forced boolean not null default false;
