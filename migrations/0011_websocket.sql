-- Whether a route accepts WebSockets. Only routes have them.
alter table edges add column websocket boolean not null default true;
alter table edges add constraint edges_websocket check (websocket or kind = 'route');
