-- Whether the paths of a route may contain encoded slashes. Only routes have paths.
alter table edges add column encoded_slashes text not null default 'reject';
alter table edges add constraint edges_encoded_slashes
  check (encoded_slashes = 'reject' or (encoded_slashes = 'allow' and kind = 'route'));
