-- locks writes: cells
-- The NATS account of a cell, which leaf servers near its nodes link to. Those without a cell are closed, and stay: the
-- credentials of a link never expire.
create table cell_accounts (
  account text primary key,
  cell_id int,
  -- Where nodes of the cell reach NATS.
  servers text[] not null,
  constraint cell_accounts_of_cell unique (cell_id),
  constraint cell_accounts_cell_fk foreign key (cell_id) references cells
);
