-- Certificates of accounts. The private key is encrypted with a key that is not in the database: whoever reads a backup
-- has the names, not the keys.
create table tls_certificates (
  account_id uuid not null,
  id uuid not null,
  -- Who brought it: a person, or the installation that ordered it.
  source text not null,
  description text,
  metadata text,
  created_at timestamptz(3) not null default now(),
  -- When this chain and key came, which may replace earlier ones.
  issued_at timestamptz(3) not null default now(),
  certificate_pem text not null,
  -- Nonce, ciphertext and tag. The account and the id are bound to it, so that it is of no use in another row.
  private_key bytea not null,
  -- Which key of the operator's file encrypts it.
  secrets_key_id text not null,
  not_before timestamptz(3) not null,
  not_after timestamptz(3) not null,
  -- What is shown of the first certificate, read when it came.
  facts jsonb not null,
  primary key (account_id, id),
  constraint tls_certificates_account_fk foreign key (account_id) references accounts (id),
  constraint tls_certificates_source check (source in ('uploaded', 'acme')),
  constraint tls_certificates_description_bytes check (octet_length(description) <= 255),
  constraint tls_certificates_metadata_bytes check (octet_length(metadata) <= 4096),
  constraint tls_certificates_certificate_bytes check (octet_length(certificate_pem) between 1 and 24000),
  constraint tls_certificates_private_key_bytes check (octet_length(private_key) between 29 and 24000),
  constraint tls_certificates_secrets_key_id check (secrets_key_id ~ '^[0-9a-f]{16}$')
);
-- A rotation looks for what another key encrypts.
create index tls_certificates_secrets_key on tls_certificates (secrets_key_id);
create index tls_certificates_expiry on tls_certificates (not_after);

-- The public keys of edge nodes, to which the keys of certificates are encrypted. Of each node at most one that is
-- accepted, and the latest that waits for the operator to accept it.
create table edge_node_keys (
  node text not null,
  accepted boolean not null,
  id uuid not null,
  public_key text not null,
  first_seen_at timestamptz(3) not null default now(),
  -- What the node decrypts the keys of certificates with, encrypted to its public key, and which one it is.
  sealed text,
  delivery_key_id text,
  primary key (node, accepted),
  constraint edge_node_keys_id unique (id),
  constraint edge_node_keys_node_bytes check (octet_length(node) between 1 and 255),
  constraint edge_node_keys_public_key check (public_key ~ '^x25519:[A-Za-z0-9_-]{43}$'),
  constraint edge_node_keys_sealed_bytes check (octet_length(sealed) between 1 and 1000)
);
