-- locks: signing_keys
-- Keys that sign records, encrypted with a key that is not in the database, and bound to their public key. A process of an
-- earlier version reads private_key, so existing rows keep it until 'gatehouse secrets rotate' encrypts them.
alter table signing_keys
  alter column private_key drop not null,
  -- Nonce, ciphertext and tag.
  add column sealed_private_key bytea,
  add column secrets_key_id text,
  add constraint signing_keys_one_form check (num_nonnulls(private_key, sealed_private_key) = 1),
  add constraint signing_keys_secrets_key check ((sealed_private_key is null) = (secrets_key_id is null));
