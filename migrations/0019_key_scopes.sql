-- Which operations a key may call, as patterns of operation ids: '*' is all of them. The owner's role limits it as well.
-- From which addresses the key may be used; none listed: from any.
alter table api_keys
  add column scopes text[] not null default '{*}',
  add column allowed_cidrs cidr[] not null default '{}';
alter table api_keys
  add constraint api_keys_scopes_size check (
    cardinality(scopes) between 1 and 100 and octet_length(array_to_string(scopes, ',')) <= 10100
  ),
  add constraint api_keys_allowed_cidrs_count check (cardinality(allowed_cidrs) <= 100);

-- Viewers read what members read, and change nothing.
alter table principals drop constraint principals_kind;
alter table principals add constraint principals_kind check (
  (kind = 'user' and email is not null and role in ('admin', 'member', 'viewer')) or
  (kind = 'bot' and email is null and role = 'member')
);
