import { encodePolicy, type PolicyFile, wholeFile } from '../../src/distribution/policy_file.ts'
import type { EdgeRecord, PolicyRecord, RecordKey, RecordKind, RecordValue } from '../../src/distribution/records.ts'
import type { RouteModuleSettings } from '../../src/distribution/route_modules.ts'
import { encodeRules } from '../../src/distribution/rule_file.ts'
import { cutRuleList, ruleListLayout } from '../../src/distribution/rule_list.ts'
import { newId, newUuid } from '../../src/kernel/ids.ts'
import { checkedCidr } from '../../src/kernel/ip/canonical_cidr.ts'
import { compilePolicy, type DatedRule } from '../../src/kernel/ip/ranges.ts'
import { clientAuthority1, mutualTlsSample } from '../harness/client_authorities.ts'
import { connectionLimitSample, ofModules } from '../harness/route_modules.ts'

export type Sample = EdgeRecord & { value: RecordValue }

/** A sound record of each kind with every field that it may have. `number` keeps their names and addresses apart. */
export function samplesOf(number: number, tcpPort = 10_000): Record<RecordKind, Sample> {
  const [account, policy, https] = [newId('ac'), newId('ipp'), newId('edghts')]
  const [backend, response] = [newId('bkdst'), newId('bkdhr')]
  const name = `m${number}.example.com`
  const sample = (key: RecordKey, value: RecordValue): Sample => ({ key, generation: 1, value })
  return {
    policy: { key: `policy.${policy}`, generation: 1, ...policyOf(number) },
    restrictions: sample(`restrictions.${account}`, {
      sets: [{ id: newId('ipx'), enforced: true, policies: [policy] }],
    }),
    cell_nodes: sample(`cell_nodes.${account}`, { nodes: 3 }),
    backend: sample(`backend.${backend}`, {
      ...{ host: '192.0.2.1', port: 8_080, tls: true, protocol: 'http2', send_proxy_protocol: true },
      health_check: { type: 'http', path: '/up', interval_seconds: 60, healthy_after: 2, unhealthy_after: 3 },
    }),
    weighted: sample(`weighted.${newId('bkdwd')}`, { account, backends: [[backend, 10]] }),
    failover: sample(`failover.${newId('bkdfo')}`, { account, backends: [backend], response }),
    response: sample(`response.${response}`, { status: 503, headers: [['Retry-After', '60']], body: 'back soon' }),
    tcp: sample(`tcp.${newId('edgtcp')}`, {
      ...{ account, hostports: [`10.1.${number >> 8}.${number & 255}:${tcpPort}`], backend },
      ...{ policies: [policy], policies_mode: 'warn', rate_limit: connectionLimitSample.record },
    }),
    https: sample(`https.${https}`, { hostports: [`${name}:443`] }),
    mutual_tls: sample(`mutual_tls.${newId('edghts')}`, {
      ...{ account, hostports: [`mutual-${name}:443`], ...mutualTlsSample.record, authorities: [clientAuthority1] },
    }),
    route: sample(`route.${newId('edghtsrt')}`, {
      ...{ account, edge: https, match_type: 'path_prefix', match: '/a', backend },
      ...{ policies: [policy], policies_mode: 'warn' },
      ...{
        headers: { add: [['x-a', 'b']], remove: ['x-c'] },
        response_headers: { add: [['x-d', 'e']], remove: ['x-f'] },
      },
      ...(ofModules(({ record }) => record) as RouteModuleSettings),
      ...{ encoded_slashes: 'allow', path_variants: 'ignore' },
      ...{ websocket: false, timeouts: { connect_seconds: 1, response_seconds: 2, idle_seconds: 3 } },
    }),
    certificate: sample(`certificate.${newId('cert')}`, {
      ...{ account, names: [`*.${name}`], except: [`x.${name}`], key: 'a2V5', key_id: '0123456789abcdef' },
      chain: '-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n',
    }),
    recipient: sample(`recipient.${newId('enk')}`, {
      ...{ node: 'edge-1', public_key: `x25519:${'A'.repeat(43)}`, key_id: '0123456789abcdef' },
      sealed: `x25519:${'A'.repeat(43)}.c2VhbGVk`,
    }),
    challenge: sample(`challenge.${newId('chl')}`, { host: name, token: 'token', answer: 'token.thumbprint' }),
  }
}

/** With the files beside the value: which rule decides, and which rules expire. */
function policyOf(number: number): Pick<EdgeRecord, 'rules' | 'expiring'> & { value: PolicyRecord } {
  const account = newUuid()
  const later = Date.UTC(2100, 0)
  const rules: DatedRule[] = [
    { cidr: checkedCidr('10.0.0.0/8'), action: 'allow' },
    { cidr: checkedCidr(`192.0.2.${number % 256}/32`), action: 'allow', expiresAt: later },
  ]
  const ruleIds = Buffer.alloc(16 * rules.length, 1)
  const ranges = compilePolicy(rules)
  const inline = ({ hash, bytes }: PolicyFile): PolicyRecord => ({
    ...{ hash, bytes: bytes.length, inline: bytes.toString('base64') },
  })
  return {
    value: inline(encodePolicy(ranges)),
    rules: inline(encodeRules(account, ranges, ruleIds)),
    expiring: { at: later, list: inline(wholeFile(cutRuleList({ rules, ruleIds }), ruleListLayout(account))) },
  }
}
