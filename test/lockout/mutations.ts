import type { Answer, Options } from '../harness/client.ts'
import { restrict } from '../harness/ip.ts'

type Call = (method: string, path: string, body?: unknown, options?: Options) => Promise<Answer>

/** Where everybody in these tests calls from. */
export const self = '198.51.100.7'
const elsewhere = '203.0.113.0/24'

/** Two restrictions, two policies, and a rule in each: `mine` allows the caller, `theirs` another address. */
export type Stage = Record<'mine' | 'theirs' | 'myRule' | 'theirRule' | 'inForce' | 'trial', string> & { type: Way }
/** The traffic that the caller is part of, and is to be shut out of. */
export type Way = 'api' | 'dashboard'

export async function setStage(call: Call, type: Way = 'api'): Promise<Stage> {
  const withRule = async (cidr: string): Promise<[string, string]> => {
    const { body: policy } = await call('POST', '/ip_policies', {})
    const { body: rule } = await call('POST', '/ip_policy_rules', { ip_policy_id: policy.id, action: 'allow', cidr })
    return [policy.id, rule.uri]
  }
  const [[mine, myRule], [theirs, theirRule]] = await Promise.all([withRule(self), withRule(elsewhere)])
  const inForce = (await restrict(call, { type, enforced: true, ip_policy_ids: [mine] })).uri
  const trial = (await restrict(call, { type, ip_policy_ids: [theirs] })).uri
  return { mine, theirs, myRule, theirRule, inForce, trial, type }
}

/** `query` is '' or '?allow_self_lockout=true'. */
type Mutation = (call: Call, stage: Stage, query: string) => Promise<Answer>
const addRule =
  (policy: 'mine' | 'theirs', action: string, cidr: string): Mutation =>
  (call, stage, query) =>
    call('POST', `/ip_policy_rules${query}`, { ip_policy_id: stage[policy], action, cidr })
const patch =
  (what: 'myRule' | 'theirRule' | 'inForce' | 'trial', body: (stage: Stage) => object): Mutation =>
  (call, stage, query) =>
    call('PATCH', stage[what] + query, body(stage))
const replace =
  (policy: 'mine' | 'theirs', ...lines: string[]): Mutation =>
  (call, stage, query) =>
    call('PUT', `/ip_policies/${stage[policy]}/rules${query}`, undefined, {
      rawBody: lines.join('\n'),
      contentType: 'text/plain',
    })

/** Every change that can shut a caller out, or enables another to. */
export const mutations: Record<string, Mutation> = {
  'create an enforced restriction with their policy': (call, { theirs, type }, query) =>
    call('POST', `/ip_restrictions${query}`, { type, enforced: true, ip_policy_ids: [theirs] }),
  'create an enforced restriction with both policies': (call, { mine, theirs, type }, query) =>
    call('POST', `/ip_restrictions${query}`, { type, enforced: true, ip_policy_ids: [theirs, mine] }),
  'enforce the trial': patch('trial', () => ({ enforced: true })),
  'release the one in force': patch('inForce', () => ({ enforced: false })),
  'enforce it again': patch('inForce', () => ({ enforced: true })),
  'give the one in force their policy': patch('inForce', ({ theirs }) => ({ ip_policy_ids: [theirs] })),
  'give the trial both policies': patch('trial', ({ mine, theirs }) => ({ ip_policy_ids: [mine, theirs] })),
  'add a deny of myself to my policy': addRule('mine', 'deny', `${self.replace(/\d+$/, '0')}/24`),
  'add a deny of everybody to their policy': addRule('theirs', 'deny', '0.0.0.0/0'),
  'add an allow of myself to their policy': addRule('theirs', 'allow', self),
  'move my rule elsewhere': patch('myRule', () => ({ cidr: elsewhere })),
  'move their rule to me': patch('theirRule', () => ({ cidr: self })),
  'let my rule expire': patch('myRule', () => ({ expires_at: '2020-01-01T00:00:00Z' })),
  'delete my rule': (call, { myRule }, query) => call('DELETE', myRule + query),
  'empty my policy': replace('mine'),
  'replace my policy by one that denies me': replace('mine', 'allow 0.0.0.0/0', `deny ${self}`),
  'replace their policy by one that allows me': replace('theirs', `allow ${self}`),
}
