-- locks: edges
-- Whether a route's IP restriction also decides about other spellings of its path. Only routes have paths.
alter table edges add column path_variants text not null default 'restrict';
alter table edges add constraint edges_path_variants
  check (path_variants = 'restrict' or (path_variants = 'ignore' and kind = 'route'));
