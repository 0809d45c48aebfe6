-- The certificate that edge nodes serve for a domain and what is under it. As long as a domain names it, it cannot be deleted.
alter table reserved_domains add column certificate_id uuid;
alter table reserved_domains add constraint reserved_domains_certificate_fk
  foreign key (account_id, certificate_id) references tls_certificates (account_id, id);
create index reserved_domains_of_certificate on reserved_domains (account_id, certificate_id) where certificate_id is not null;
