-- Kinds of backends other than one server. All are in one table, so that one foreign key holds whatever an edge or route
-- uses. The version before reads every row as a static backend: the others have an address that resolves to nothing, so
-- that it can still run on this database, without serving them.
alter table backends add column kind text not null default 'static';
-- Of a static backend: how nodes check it, or null.
alter table backends add column health_check jsonb;
-- Of an HTTP response. json, not jsonb: headers come back in the order they were sent.
alter table backends add column status_code int;
alter table backends add column headers json;
alter table backends add column body text;
alter table backends add constraint backends_kind check (
  (kind = 'static' and status_code is null and headers is null and body is null) or
  (kind in ('weighted', 'failover') and health_check is null and address = 'none.invalid:1' and status_code is null
    and headers is null and body is null) or
  (kind = 'http_response' and health_check is null and address = 'none.invalid:1' and status_code between 200 and 599
    and headers is not null and octet_length(body) <= 8192)
);
-- Lists are by kind, and members name the kind of what they refer to.
alter table backends add constraint backends_of_kind unique (account_id, kind, id);

-- The members of weighted and failover backends. The kinds stand here so that the foreign keys hold them, too: a group
-- inside a group cannot be stored.
create table backend_members (
  account_id uuid not null,
  group_kind text not null,
  group_id uuid not null,
  member_kind text not null,
  member_id uuid not null,
  position int not null,
  weight int,
  primary key (account_id, group_id, member_id),
  constraint backend_members_group_fk foreign key (account_id, group_kind, group_id)
    references backends (account_id, kind, id) on delete cascade,
  constraint backend_members_member_fk foreign key (account_id, member_kind, member_id)
    references backends (account_id, kind, id),
  constraint backend_members_kinds check (
    (group_kind = 'weighted' and member_kind = 'static' and weight between 0 and 10000) or
    (group_kind = 'failover' and member_kind in ('static', 'http_response') and weight is null)
  )
);
create index backend_members_of_member on backend_members (account_id, member_id);
