-- Secrets of webhooks are encrypted like private keys of certificates: with a key that is not in the database, bound to the
-- account and the id. Rows of before have them in clear until a process that has such a key finds them. While a process of
-- the version before still runs, it may write one in clear; that one is newer than what is sealed beside it.
alter table webhook_destinations
  alter column secret drop not null,
  -- Nonce, ciphertext and tag.
  add column sealed_secret bytea,
  add column secret_key_id text,
  add column sealed_previous_secret bytea,
  add column previous_secret_key_id text,
  add constraint webhook_destinations_has_secret check (num_nonnulls(secret, sealed_secret) >= 1),
  add constraint webhook_destinations_secret_key check ((sealed_secret is null) = (secret_key_id is null)),
  add constraint webhook_destinations_previous_secret_key
    check ((sealed_previous_secret is null) = (previous_secret_key_id is null));
-- Upkeep looks for what is in clear, every hour.
create index webhook_destinations_in_clear on webhook_destinations (account_id, id)
  where secret is not null or previous_secret is not null;
