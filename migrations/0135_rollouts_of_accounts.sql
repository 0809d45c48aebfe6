-- locks: rollouts, outbox
-- What an account sees of its rollouts: an id, and which of its changes they contain.

-- A UUIDv7 of a moment, for rows that a version writes which does not know the column.
create function uuid_of_moment(moment timestamptz) returns uuid language sql volatile as $$
  select overlay(overlay(gen_random_uuid()::text placing
    substr(hex, 1, 8) || '-' || substr(hex, 9, 4) from 1 for 13) placing '7' from 15 for 1)::uuid
  from lpad(to_hex(floor(extract(epoch from moment) * 1000)::bigint), 12, '0') as hex
$$;
alter table rollouts add column public_id uuid;
update rollouts set public_id = uuid_of_moment(created_at);
alter table rollouts
  alter column public_id set default uuid_of_moment(clock_timestamp()),
  alter column public_id set not null,
  add constraint rollouts_public_id unique (account_id, public_id);
create index rollouts_ended on rollouts (ended_at) where ended_at is not null;

-- The operation that made the change, as its audit events name it. Null: the service did, or an older version.
alter table outbox add column operation_id text;

create table rollout_changes (
  rollout_id bigint not null,
  operation_id text not null,
  primary key (rollout_id, operation_id),
  constraint rollout_changes_rollout_fk foreign key (rollout_id) references rollouts on delete cascade
);
