// The fixed limits of the API and of edges, from the constants that enforce them, for
// docs/reference/limits-and-retention.md.

import { quotaSettings } from '../src/config/quotas.ts'
import { maxJsonBytes } from '../src/http/input/body.ts'
import { certificateLimits } from '../src/kernel/crypto/certificate.ts'
import { maxMembers, maxWeight } from '../src/kernel/edge/backends.ts'
import { responseLimits } from '../src/kernel/edge/fixed_response.ts'
import { headerLimits } from '../src/kernel/edge/headers.ts'
import { healthCheckLimits } from '../src/kernel/edge/health_check.ts'
import { maxHostports } from '../src/kernel/edge/hostport.ts'
import { maxMatchBytes } from '../src/kernel/edge/paths.ts'
import { timeoutLimits, websocketIdleSeconds } from '../src/kernel/edge/timeouts.ts'
import { maxAttachedPolicies } from '../src/kernel/ip/decide.ts'
import { maxPageSize } from '../src/kernel/paging.ts'
import { maxAncestors, maxDescendants } from '../src/resources/api_keys/store.ts'
import { ruleTextLimitBytes } from '../src/resources/ip_policy_rules/rule_text.ts'
import { maxRules } from '../src/resources/ip_policy_rules/schema.ts'
import { maxRemoved } from '../src/resources/rule_evidence/schema.ts'

const number = (value: number): string => value.toLocaleString('en-US')
const bytes = (value: number): string =>
  value % (1024 * 1024) === 0
    ? `${number(value / 1024 / 1024)} MiB`
    : value % 1024 === 0
      ? `${number(value / 1024)} KiB`
      : `${number(value)} bytes`
const seconds = ({ default: byDefault, longest }: { default: number; longest: number }): string =>
  `${number(byDefault)} seconds by default, ${number(longest)} at most`

export const limitRows = (): string[][] => [
  ['entries of a page of a list', number(maxPageSize)],
  ['JSON body of modules, routes and rule sets', bytes(maxJsonBytes)],
  ['rule set sent as text', bytes(ruleTextLimitBytes)],
  ['rules of one IP policy', number(maxRules)],
  ['rules removed by one `remove_rules`', number(maxRemoved)],
  ['policies of one restriction or `ip_restriction` module', number(maxAttachedPolicies)],
  ['hostports of one edge', number(maxHostports)],
  ["length of a route's `match`", bytes(maxMatchBytes)],
  ['entries of `add`, and of `remove`, in `request_headers` and `response_headers`', number(headerLimits.entries)],
  ['header name, header value', `${bytes(headerLimits.nameBytes)}, ${bytes(headerLimits.valueBytes)}`],
  ['all header operations of one of these modules together', `${bytes(headerLimits.allBytes)}, once encoded`],
  ['members of a weighted or failover backend', number(maxMembers)],
  ['weight', number(maxWeight)],
  ['body of an HTTP response backend', bytes(responseLimits.bodyBytes)],
  ['headers of an HTTP response backend', bytes(responseLimits.headerBytes)],
  [
    'interval of a health check',
    `${healthCheckLimits.interval_seconds.default} seconds by default, ${healthCheckLimits.interval_seconds.most} at most`,
  ],
  ['route time-out `connect_seconds`', seconds(timeoutLimits.connect_seconds)],
  ['route time-out `response_seconds`', seconds(timeoutLimits.response_seconds)],
  [
    'route time-out `idle_seconds`',
    `${seconds(timeoutLimits.idle_seconds)}; ${number(websocketIdleSeconds)} by default for WebSockets`,
  ],
  [
    'certificates in an uploaded chain, and its size',
    `${certificateLimits.certificates}, ${bytes(certificateLimits.chainBytes)}`,
  ],
  ['RSA keys of uploaded certificates', certificateLimits.rsaBits.map(number).join(' to ').concat(' bits')],
  ['keys in a line of descent', number(maxAncestors)],
  ['keys that one request deletes with their descendants', number(maxDescendants)],
]

export const quotaRows = (): string[][] =>
  Object.entries(quotaSettings).map(([name, { default: byDefault, help }]) => [
    /^Quota of an account: (.+?)\. /.exec(help)?.[1] ?? name,
    number(Number(byDefault)),
    `\`${name}\``,
  ])
