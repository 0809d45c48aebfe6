-- When an order of an account was last leased: accounts with orders that are due take turns.
create table acme_turns (
  account_id uuid primary key constraint acme_turns_account_fk references accounts on delete cascade,
  leased_at timestamptz(3) not null
);

-- Orders that were made at the authority, for the limit of an account. Those of more than an hour ago are deleted with the
-- next one. They are apart from acme_orders: to delete a domain must not bring back its orders.
create table acme_order_slots (
  account_id uuid not null constraint acme_order_slots_account_fk references accounts on delete cascade,
  id uuid not null,
  taken_at timestamptz(3) not null,
  primary key (account_id, id)
);
