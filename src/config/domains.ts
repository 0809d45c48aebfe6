import { setting } from './setting.ts'
import { dnsServers, domainOwnership, wholeNumber } from './values.ts'

export const domainSettings = {
  GATEHOUSE_DOMAIN_OWNERSHIP: setting({
    default: 'auto',
    help: 'Whether HTTPS hostports need a verified domain: required, trusted (no), or auto: required as soon as there is more than one account.',
    parse: domainOwnership,
  }),
  GATEHOUSE_DOMAIN_GRACE_DAYS: setting({
    default: '7',
    help: 'Days for which an account keeps a verified domain after its TXT record has gone.',
    parse: wholeNumber(0, 365),
  }),
  GATEHOUSE_DOMAIN_CHECKS_PER_MINUTE: setting({
    default: '30',
    help: 'Domains that one account may verify per minute, through each process.',
    parse: wholeNumber(1, 10_000),
  }),
  GATEHOUSE_DNS_SERVERS: setting({
    default: '',
    help: 'Recursive DNS servers for verifying domains, comma-separated, as address or address:port. Empty: those of the system.',
    parse: dnsServers,
  }),
}
