-- no transaction
-- For lists that are narrowed to one owner, name or address, newest first.
create index concurrently if not exists api_keys_of_owner on api_keys (account_id, owner_id, id);
create index concurrently if not exists principals_of_name on principals (account_id, name, id);
create index concurrently if not exists backends_of_address on backends (account_id, address, id);
