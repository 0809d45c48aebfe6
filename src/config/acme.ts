import { setting } from './setting.ts'
import { acmeChallenge, acmeDirectory, onOrOff, text, wholeNumber } from './values.ts'

/** Settings of the ACME authority and its challenges. */
export const acmeSettings = {
  GATEHOUSE_ACME_DIRECTORY: setting({
    default: '',
    help: 'ACME authority that issues certificates: the https URL of its directory, letsencrypt or letsencrypt-staging. Empty: none. Needs GATEHOUSE_SECRETS_KEY_FILE.',
    parse: acmeDirectory,
  }),
  GATEHOUSE_ACME_CA_FILE: setting({
    default: '',
    help: "PEM file of the roots that the ACME authority's own server is trusted by. Empty: those of Node.js.",
    parse: text,
  }),
  GATEHOUSE_ACME_EMAIL: setting({
    default: '',
    help: 'Address at which the ACME authority may contact you.',
    parse: text,
  }),
  GATEHOUSE_ACME_AGREE_TERMS: setting({
    default: 'off',
    help: 'on: you agree to the terms of service of the ACME authority. Most issue nothing otherwise.',
    parse: onOrOff,
  }),
  GATEHOUSE_ACME_CHALLENGE: setting({
    default: 'http-01',
    help: 'How names are validated: http-01 (port 80 of the edge nodes; wildcards with the hook) or dns-01 (all with the hook).',
    parse: acmeChallenge,
  }),
  GATEHOUSE_ACME_DNS_HOOK: setting({
    default: '',
    help: 'Absolute path of a program that publishes TXT records for dns-01; see docs/guides/certificates.md. Wildcards need it.',
    parse: text,
  }),
  GATEHOUSE_ACME_ORDERS_PER_HOUR: setting({
    default: '20',
    help: "Certificates that one account may order per hour, renewals included. All accounts share the authority's limits.",
    parse: wholeNumber(1, 10_000),
  }),
}
