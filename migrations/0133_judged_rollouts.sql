-- locks: address_outcomes, cells
-- When the address was refused for the first time after it had been let in, by the clock of the database, and by which node.
alter table address_outcomes
  add column newly_refused_at timestamptz(3),
  add column newly_refused_by text;

-- What halts a rollout in the cell. Addresses that were let in lately and are refused now, at one edge or route: so many, or
-- this share of them. And by how many points the share of failed requests rises.
alter table cells
  add column halt_addresses int not null default 50,
  add column halt_addresses_percent int not null default 20,
  add column halt_errors_percent int not null default 20,
  add constraint cells_halt_addresses check (halt_addresses >= 1) not valid,
  add constraint cells_halt_addresses_percent check (halt_addresses_percent between 1 and 100) not valid,
  add constraint cells_halt_errors_percent check (halt_errors_percent between 1 and 100) not valid;
