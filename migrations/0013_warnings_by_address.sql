-- no transaction
-- The warnings of one address: for a list of the latest ones, which the dashboard asks for every few seconds. All its
-- columns stay as they are when a count goes up.
create index concurrently if not exists ip_restriction_counts_warned on ip_restriction_counts
  (account_id, ip_restriction_id, source_ip, hour) where outcome = 'warned';
