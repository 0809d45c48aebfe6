-- How many requests a minute each key of the account may make, for each process. Null: what the operator has set for all
-- accounts. 0: no limit.
alter table accounts add column requests_per_minute int;
alter table accounts add constraint accounts_requests_per_minute check (requests_per_minute between 0 and 1000000);
