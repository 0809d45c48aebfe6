-- locks: cells, fleet_nodes, join_tokens, outbox, publisher_state
-- Nodes of a later wave of a cell get changes after they were watched in the one before.
alter table cells
  add column waves int not null default 1,
  add column soak_seconds int not null default 30,
  add constraint cells_waves check (waves between 1 and 5) not valid,
  add constraint cells_soak_seconds check (soak_seconds between 1 and 86400) not valid;
alter table fleet_nodes add column wave int not null default 0;
alter table join_tokens add column wave int not null default 0;

-- Null: for all waves.
alter table outbox add column waves int4range;

-- Up to where every change belongs to a rollout, or did; and a number that differs after each decision about one.
alter table publisher_state
  add column classified bigint not null default 0,
  add column rollouts_version bigint not null default 0;

-- The same as publisher_state, which is that of the first wave.
create table wave_state (
  cell_id int not null,
  wave int not null check (wave > 0),
  cursor bigint not null,
  bucket_created text,
  bucket_revision bigint not null default 0,
  resend_below bigint not null default 0,
  primary key (cell_id, wave),
  constraint wave_state_cell_fk foreign key (cell_id) references cells
);

-- One account's changes on their way through the waves of a cell.
create table rollouts (
  id bigint generated always as identity primary key,
  cell_id int not null,
  account_id uuid not null,
  state text not null default 'watching' check (state in ('watching', 'halted', 'released')),
  -- The last wave that has the changes. -1: none.
  reached int not null default 0,
  since bigint not null,
  open_until bigint not null,
  -- Under which generation the last wave that has them got them, and when.
  released_as bigint not null default 0,
  moved_at timestamptz(3) not null default now(),
  created_at timestamptz(3) not null default now(),
  -- When all nodes of the last wave that has them had applied them.
  applied_at timestamptz(3),
  -- The operator does not want to wait for the end of the watch.
  is_urgent boolean not null default false,
  reason text,
  evidence json,
  ended_at timestamptz(3),
  constraint rollouts_cell_fk foreign key (cell_id) references cells
);
create index rollouts_open on rollouts (cell_id, account_id) where ended_at is null;
create index rollouts_of_account on rollouts (account_id, id);

-- What records were before a rollout that has not reached all waves, as JSON. Null: NATS had lost it.
create table held_records (
  rollout_id bigint not null,
  key text not null,
  contents text,
  primary key (rollout_id, key),
  constraint held_records_rollout_fk foreign key (rollout_id) references rollouts on delete cascade
);
create index held_records_of_key on held_records (key);
