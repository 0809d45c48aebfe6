-- Which held domains are under another: spelt backwards, everything under a domain stands together. Without it, compiling
-- a certificate looks at all domains of all accounts.
create index reserved_domains_below on reserved_domains ((reverse(domain)) collate "C")
  where status in ('verified', 'failing', 'assigned');
