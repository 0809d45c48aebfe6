-- The last revision of the bucket that NATS has acknowledged. NATS does not sync every write: a bucket that ends before this
-- one has lost some.
alter table publisher_state add column bucket_revision bigint not null default 0;
