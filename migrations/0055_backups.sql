-- locks: none
-- The complete backups that 'gatehouse backup' has made, wherever they are: for the metric of the newest one, and for doctor.
create table backups (
  id bigint generated always as identity primary key,
  -- The moment that the backup shows. Changes after it are not in it.
  snapshot_at timestamptz(3) not null,
  finished_at timestamptz(3) not null default now(),
  file text not null,
  bytes bigint not null,
  sha256 text not null
);
create index backups_snapshot_at on backups (snapshot_at);
