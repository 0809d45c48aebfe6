-- How long the edge waits for a route's upstream, in seconds. Null, or a field that is null: the edge's default.
alter table edges add column timeouts jsonb;
alter table edges add constraint edges_timeouts check (timeouts is null or kind = 'route');
