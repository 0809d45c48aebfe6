-- Which HTTP the edge speaks to an upstream. TCP edges pass bytes on, whatever it says.
alter table backends add column protocol text not null default 'http1';
alter table backends add constraint backends_protocol check (protocol in ('http1', 'http2'));
