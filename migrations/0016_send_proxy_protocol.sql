-- Whether TCP edges begin each connection to an upstream with a PROXY protocol header, which names the client.
alter table backends add column send_proxy_protocol boolean not null default false;
