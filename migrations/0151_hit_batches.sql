-- locks: none

-- The last refusals and warnings of each agent that were added, so that those which a node sends again are not added again.
-- By restriction and by edge: the two are added in transactions of their own.
create table restriction_hit_batches (
  node text not null,
  sender uuid not null,
  batch bigint not null,
  received_at timestamptz(3) not null,
  primary key (node, sender),
  constraint restriction_hit_batches_node_bytes check (octet_length(node) between 1 and 255)
);
create table edge_hit_batches (
  node text not null,
  sender uuid not null,
  batch bigint not null,
  received_at timestamptz(3) not null,
  primary key (node, sender),
  constraint edge_hit_batches_node_bytes check (octet_length(node) between 1 and 255)
);
